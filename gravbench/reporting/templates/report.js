"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const PAGE = 25;

  const make = (tag, name, text) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (text !== undefined && text !== null) node.textContent = text;
    return node;
  };

  const put = (parent, ...nodes) => { parent.append(...nodes); return parent; };

  const unpack = async (id) => {
    const letters = atob(byId(id).textContent);
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  const kept = new Map();
  const chunk = (id) => {
    if (!kept.has(id)) {
      if (kept.size > 8) kept.delete(kept.keys().next().value);
      kept.set(id, unpack(id));
    }
    return kept.get(id);
  };

  const buildTable = (data) => {
    const left = new Set(data.left);
    const table = make("table");
    put(table, make("caption", "quiet", data.caption));
    const head = make("tr");
    data.columns.forEach((name, i) => {
      const cell = make("th", left.has(i) ? "w" : "n", name);
      cell.scope = "col";
      head.append(cell);
    });
    const body = make("tbody");
    for (const [at, row] of data.rows.entries()) {
      const line = make("tr");
      row.forEach((text, i) => {
        const tint = data.tints ? data.tints[at][i] : "";
        const cell = make(i ? "td" : "th", `${i ? (left.has(i) ? "w" : "n") : ""} ${tint}`.trim(), text);
        if (!i) cell.scope = "row";
        line.append(cell);
      });
      body.append(line);
    }
    return put(table, put(make("thead"), head), body);
  };

  // Small tables are plain, so that they are there at once when the page is printed.
  const plain = (id) => (byId(id).type === "application/json" ? JSON.parse(byId(id).textContent) : null);

  const expand = async (button) => {
    button.disabled = true;
    const table = buildTable(plain(button.dataset.table) ?? await unpack(button.dataset.table));
    button.parentElement?.replaceWith(table);
    return table;
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-table]");
    if (button) (await expand(button)).parentElement?.focus();
  });

  document.addEventListener("toggle", (event) => {
    const button = event.target.open && event.target.querySelector("button[data-table]");
    if (button) expand(button);
  }, true);

  addEventListener("beforeprint", () => {
    for (const button of document.querySelectorAll("button[data-table]")) {
      const data = plain(button.dataset.table);
      if (data) button.parentElement.replaceWith(buildTable(data));
    }
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  const state = { rows: [], pieces: [], found: [], page: 0, chosen: null };

  const orders = {
    points: (a, b) => (a[3] ?? 999) - (b[3] ?? 999),
    name: () => 0,
    fast: (a, b) => (b[4] ?? -1) - (a[4] ?? -1),
    slow: (a, b) => (a[4] ?? 1e9) - (b[4] ?? 1e9),
    tokens: (a, b) => b[2] - a[2],
  };

  const byName = (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0);

  const filter = () => {
    const words = byId("g-find").value.toLowerCase();
    const task = byId("g-task").value;
    const show = byId("g-show").value;
    const order = orders[byId("g-sort").value];
    state.found = state.rows
      .filter((row) => (!words || row[0].toLowerCase().includes(words)) && (!task || row[1] === task))
      .filter((row) => !show || (show === "failed" ? row[6] : show === "differs" ? row[5] : !row[5] && !row[6]))
      .sort((a, b) => order(a, b) || byName(a, b));
    state.page = 0;
    list();
  };

  const list = () => {
    const pages = Math.max(1, Math.ceil(state.found.length / PAGE));
    const shown = state.found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    const body = byId("g-rows");
    body.replaceChildren();
    for (const row of shown) {
      const line = make("tr", row === state.chosen ? "on" : "");
      const name = make("th");
      name.scope = "row";
      const pick = make("button", "pick", row[0]);
      pick.type = "button";
      pick.addEventListener("click", () => choose(row));
      name.append(pick);
      const remarks = [row[6] ? "failed" : "", row[5] ? "other tokens than ar" : ""].filter(Boolean).join(", ");
      put(line, name, make("td", "w", row[1]), make("td", "n", row[2]),
        make("td", "n", row[3] === null ? "–" : row[3].toFixed(2)),
        make("td", "n", row[4] === null ? "–" : row[4].toFixed(2) + "×"), make("td", "w", remarks));
      body.append(line);
    }
    byId("g-count").textContent =
      `${state.found.length} of ${state.rows.length} samples, page ${state.page + 1} of ${pages}`;
    byId("g-back").disabled = state.page === 0;
    byId("g-next").disabled = state.page + 1 >= pages;
  };

  const choose = async (row) => {
    state.chosen = row;
    const [sample, detail] = [(await chunk(`g-chunk-${row[7]}`))[row[8]], byId("g-detail")];
    if (state.chosen !== row) return;
    list();
    history.replaceState(null, "", `#sample=${encodeURIComponent(row[0])}`);
    detail.replaceChildren(...show(sample));
    detail.focus({ preventScroll: true });
    detail.scrollIntoView({ block: "start" });
  };

  const scrolling = (node, name) => {
    node.tabIndex = 0;
    node.setAttribute("role", "region");
    node.setAttribute("aria-label", name);
    node.dir = "auto";
    return node;
  };

  const show = (sample) => {
    const title = make("h3", "", sample.name);
    const about = [sample.task, ...sample.categories.map(([k, v]) => `${k}: ${v}`)].join(" · ");
    const picture = make("div");
    put(picture, make("h4", "", "Image"));
    if (sample.image) {
      const image = make("img", "thumb");
      image.src = sample.image;
      image.alt = `Image of ${sample.name}`;
      picture.append(image);
    }
    put(picture, make("p", "note", [sample.image_name, sample.image_size, sample.image_note].filter(Boolean).join(", ")));
    const truth = make("div");
    put(truth, make("h4", "", "Ground truth"));
    put(truth, sample.reference === null
      ? make("p", "absent", "The suite is not at hand, so there is no ground truth to show.")
      : scrolling(make("pre", "", sample.reference), "Ground truth"));
    return [title, make("p", "note", about), put(make("div", "pair"), picture, truth),
      ...sample.answers.map((answer) => answered(answer, sample))];
  };

  const answered = (answer, sample) => {
    const box = make("div", "answer");
    const same = answer.identical === null ? "" : answer.identical ? " – same tokens as ar" : " – other tokens than ar";
    put(box, make("h4", "", answer.label + same));
    const facts = [answer.status === "ok" ? `stopped by ${answer.stop}` : answer.status, answer.time,
      ...answer.scores.map(([k, v]) => `${k} ${v}`), `${answer.ids.length} tokens`];
    if (answer.loop) facts.push("contains a repetition loop");
    put(box, make("p", "note", facts.join(" · ")));
    if (answer.error) put(box, make("p", "banner", answer.error));
    for (const reason of answer.reasons) if (reason !== answer.error) put(box, make("p", "note", reason));
    if (answer.same !== null) {
      put(box, make("p", "note", `Same text as ${sample.answers[answer.same].label}.`));
    } else if (!answer.diff.length) {
      put(box, make("p", "absent", "No text."));
    } else {
      const text = scrolling(make("pre"), `Text of ${answer.label}`);
      for (const [kind, part] of answer.diff) {
        text.append(kind === "=" ? part : make(kind === "-" ? "del" : "ins", "", part));
      }
      put(box, text);
      if (sample.reference !== null) {
        put(box, put(make("p", "legend"), make("del", "", "only in the ground truth"), " ", make("ins", "", "only in the answer")));
      }
    }
    if (answer.split !== null) put(box, make("p", "note", parting(answer)));
    put(box, ...strip(answer));
    return box;
  };

  const parting = (answer) => {
    const { at, base, other, judged } = answer.split;
    const name = (id) => `“${state.pieces[answer.run][id] ?? `#${id}`}”`;
    const own = at < answer.ids.length ? name(answer.ids[at]) : "the end";
    const theirs = other === null ? "the end" : name(other);
    return `First difference from ${base} at token ${at}: ${own} here, ${theirs} there; ${judged}.`;
  };

  const NAMES = { p: "prefill's own", s: "seed", a: "accepted", c: "correction", b: "bonus", g: "plain", x: "rejected", d: "accepted, behind the end" };

  const strip = (answer) => {
    if (answer.strip === null) return [make("p", "absent", "The engine did not report its rounds.")];
    if (!answer.ids.length) return [];
    const split = answer.split;
    const holder = scrolling(make("div", "strip"), `Rounds of ${answer.label}`);
    const used = new Set();
    let at = 0;
    let number = 0;
    const token = (kind, note) => {
      used.add(kind);
      const id = answer.ids[at];
      const piece = state.pieces[answer.run][id];
      const parts = answer.aligned && split !== null && split.at === at;
      const node = make("b", parts ? `k-${kind} parts` : `k-${kind}`, answer.aligned ? piece ?? `#${id}` : "·");
      node.title = `${note}: ${NAMES[kind]}${answer.aligned ? `, token ${at}, id ${id}` : ""}`;
      if (parts) node.title += `; first difference from ${split.base}: ${split.judged}`;
      at += 1;
      return node;
    };
    const ghost = (kind, count, note) => {
      used.add(kind);
      const node = make("b", `k-${kind}`, `${kind === "x" ? "−" : "+"}${count}`);
      node.title = `${note}: ${count} ${NAMES[kind]}`;
      return node;
    };
    for (const rounds of answer.strip) {
      put(holder, put(make("span", "r"), token("p", "before the first round")));
      for (const [kinds, offered, rejected, dropped] of rounds) {
        number += 1;
        const note = `round ${number}, ${offered} drafted`;
        const group = make("span", "r");
        for (const kind of kinds) group.append(token(kind, note));
        if (rejected) group.append(ghost("x", rejected, note));
        if (dropped) group.append(ghost("d", dropped, note));
        put(holder, group, " ");
      }
    }
    const legend = make("p", "legend", `${number} rounds. `);
    for (const kind of used) put(legend, make("b", `k-${kind}`, NAMES[kind]), " ");
    if (holder.querySelector(".parts")) put(legend, make("b", "parts", `first difference from ${split.base}`));
    return [make("h4", "", `Round by round: ${answer.label}`), holder, legend];
  };

  const start = async () => {
    const index = await unpack("g-index");
    state.rows = index.rows;
    state.pieces = index.pieces;
    for (const task of [...new Set(index.rows.map((row) => row[1]))].sort()) {
      const option = make("option", "", task);
      option.value = task;
      byId("g-task").append(option);
    }
    byId("g-form").addEventListener("input", filter);
    byId("g-form").addEventListener("submit", (event) => event.preventDefault());
    byId("g-back").addEventListener("click", () => { state.page -= 1; list(); });
    byId("g-next").addEventListener("click", () => { state.page += 1; list(); });
    filter();
    addEventListener("hashchange", open);
    await open();
    document.documentElement.dataset.ready = "yes";
  };

  const open = async () => {
    if (!location.hash.startsWith("#sample=")) return;
    let name = location.hash.slice(8);
    try { name = decodeURIComponent(name); } catch { /* a half-written escape stays as it is */ }
    const row = state.rows.find((one) => one[0] === name);
    if (row) await choose(row);
  };

  start();
})();
