// The gallery: a grid of pictures, and one sample at a time in a window of its own.
(() => {
  const { byId, make, put, unpack, plain } = page;
  const OTHER_TOKENS = 1, FAILED = 2, OTHER_TEXT = 4, LOOP = 8;
  const PAGE = matchMedia("(max-width: 40rem)").matches ? 12 : 24;
  const STEP_MS = 350;

  const state = { rows: [], found: [], page: 0, chosen: null, arm: "", against: "reference", layout: true, timer: 0 };

  const remembered = (read) => {
    const kept = new Map();
    return (id) => {
      if (!kept.has(id)) {
        if (kept.size > 60) kept.delete(kept.keys().next().value);
        kept.set(id, read(id));
      }
      return kept.get(id);
    };
  };
  const chunk = remembered((number) => unpack(`g-chunk-${number}`));
  const pictures = remembered((number) => plain(`g-pictures-${number}`));

  // A row, by name. A cell is what one strategy made of the sample.
  const named = ([name, task, tokens, tags, chunk, place, cells]) => ({
    name, task, tokens, chunk, place, tags: tags.map((i) => state.tags[i]),
    cells: cells.map(([label, points, metric, speedup, loss, flags]) => (
      { label: state.labels[label], points, metric: state.metrics[metric], speedup, loss, flags })),
  });

  const cells = (row) => (state.arm ? row.cells.filter((cell) => cell.label === state.arm) : row.cells);
  const lowest = (row, key) => cells(row).reduce((low, cell) => (
    cell[key] !== null && (low === null || cell[key] < low[key]) ? cell : low), null);
  const highest = (row) => Math.max(-1, ...cells(row).map((cell) => cell.speedup ?? -1));
  const flagged = (row, flags) => cells(row).some((cell) => cell.flags & flags);

  const kinds = {
    changed: (row) => flagged(row, OTHER_TOKENS | OTHER_TEXT),
    worse: (row) => (lowest(row, "loss")?.loss ?? 0) < 0,
    failed: (row) => flagged(row, FAILED),
    slow: (row) => highest(row) > 0 && highest(row) < 1,
  };

  const orders = {
    points: (row) => lowest(row, "points")?.points ?? 999,
    loss: (row) => lowest(row, "loss")?.loss ?? 999,
    slow: (row) => lowest(row, "speedup")?.speedup ?? 1e9,
    fast: (row) => -highest(row),
    tokens: (row) => -row.tokens,
    name: () => 0,
  };

  const filter = () => {
    const words = byId("g-find").value.toLowerCase();
    const task = byId("g-task").value;
    state.arm = byId("g-arm").value;
    const given = state.rows.filter((row) => (!task || row.task === task) && cells(row).length
      && (!words || [row.name, ...row.tags].some((text) => text.toLowerCase().includes(words))));
    const only = [];
    for (const box of document.querySelectorAll("#g-form [name=only]")) {
      byId(`g-n-${box.value}`).textContent = given.filter(kinds[box.value]).length.toLocaleString("en");
      if (box.checked) only.push(kinds[box.value]);
    }
    const key = orders[byId("g-sort").value];
    state.found = given.filter((row) => only.every((kind) => kind(row)))
      .map((row) => [key(row), row])
      .sort(([a, x], [b, y]) => a - b || (x.name < y.name ? -1 : x.name > y.name ? 1 : 0))
      .map(([, row]) => row);
    state.page = 0;
    list();
  };

  const link = (row) => `#sample=${encodeURIComponent(row.name)}${state.arm ? `&arm=${encodeURIComponent(state.arm)}` : ""}`;

  const list = () => {
    const pages = Math.max(1, Math.ceil(state.found.length / PAGE));
    const shown = state.found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    byId("g-rows").replaceChildren(...shown.map(card));
    byId("g-count").textContent =
      `${state.found.length.toLocaleString("en")} of ${state.rows.length.toLocaleString("en")} samples, page ${state.page + 1} of ${pages}`;
    byId("g-back").disabled = state.page === 0;
    byId("g-next").disabled = state.page + 1 >= pages;
    // Pictures come after the page is usable; those of a list that is gone are not fetched.
    const waiting = [...byId("g-rows").querySelectorAll("img")];
    setTimeout(() => waiting.forEach((image, i) => image.isConnected && fill(image, shown[i])));
  };

  const fill = (image, row) => {
    const address = pictures(row.chunk)[row.place];
    if (address) image.src = address; else image.replaceWith(make("i", "blank"));
  };

  const card = (row) => {
    const worst = lowest(row, "points"), pace = highest(row);
    const remarks = [kinds.failed(row) && "failed", kinds.changed(row) && "changed", flagged(row, LOOP) && "loop",
      pace > 0 && `${state.arm || state.labels.length < 3 ? "" : "best "}${pace.toFixed(2)}×`].filter(Boolean);
    const level = worst === null ? "not scored" : worst.points === 100 ? "100 points" : `${worst.metric} ${worst.points.toFixed(1)}`;
    const image = make("img");
    image.alt = "";
    const open = put(make("a", row === state.chosen ? "on" : ""), image, make("b", "", row.name),
      make("span", worst !== null && worst.points < 50 ? "bad" : "", level), make("span", "", remarks.join(" · ")));
    open.title = row.name;
    open.href = link(row);
    return put(make("li"), open);
  };

  const around = () => (state.found.includes(state.chosen) ? state.found : state.rows);

  const choose = async (row) => {
    state.chosen = row;
    const sample = (await chunk(row.chunk))[row.place];
    if (state.chosen !== row) return;
    const rows = around(), at = rows.indexOf(row);
    byId("g-title").textContent = row.name;
    byId("g-place").textContent = `${at + 1} of ${rows.length}`;
    byId("g-link").href = link(row);
    byId("g-earlier").disabled = at === 0;
    byId("g-later").disabled = at + 1 === rows.length;
    if (!byId("g-detail").open) byId("g-detail").showModal();
    show(sample, row, preferred(row));
    byId("g-title").focus();
  };

  // The strategy asked for; else, of those with the worst result, the first that drafts.
  const preferred = (row) => {
    const wanted = row.cells.findIndex((cell) => cell.label === state.arm);
    if (wanted >= 0) return wanted;
    const low = row.cells.map((cell) => cell.points ?? 999);
    const worst = low.map((points, i) => i).filter((i) => low[i] === Math.min(...low));
    return worst.find((i) => row.cells[i].speedup !== null) ?? worst[0] ?? 0;
  };

  const step = (by) => {
    const rows = around(), next = rows[rows.indexOf(state.chosen) + by];
    if (!next) return;
    history.replaceState(null, "", link(next));
    choose(next);
  };

  const closed = () => {
    clearInterval(state.timer);
    if (location.hash.startsWith("#sample=")) history.replaceState(null, "", "#gallery");
    const at = state.found.indexOf(state.chosen);
    if (at < 0) return;
    state.page = Math.floor(at / PAGE);
    list();
    byId("g-rows").querySelector(".on")?.focus();
  };

  const scrolling = (node, name) => {
    node.tabIndex = 0;
    node.setAttribute("role", "region");
    node.setAttribute("aria-label", name);
    node.dir = "auto";
    return node;
  };

  const show = (sample, row, number) => {
    clearInterval(state.timer);
    const answer = sample.answers[number];
    const look = make("div", "look"), read = make("div"), address = pictures(row.chunk)[row.place];
    if (address) {
      const image = make("img", "thumb");
      image.src = address;
      image.alt = `Image of ${row.name}`;
      look.append(image);
    }
    const about = [sample.image_name, sample.image_size, sample.image_note, row.task, ...row.tags];
    put(look, make("p", "note", about.filter(Boolean).join(" · ")));
    if (sample.reference === null) put(look, make("p", "absent", "The suite is not at hand, so there is no ground truth to show."));
    else put(look, put(make("details"), make("summary", "", "Ground truth"), scrolling(make("pre", "", sample.reference), "Ground truth")));
    put(read, results(sample, row, number));
    if (answer) put(read, ...text(sample, answer, () => show(sample, row, number)), ...strip(answer));
    byId("g-body").replaceChildren(look, read);
  };

  const change = (points) => `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(2)}`;

  // Every answer in a row: its scores, whether its tokens are those of ar, its times. A name chooses one.
  const results = (sample, row, number) => {
    const metrics = [...new Set(sample.answers.flatMap((answer) => answer.scores.map(([name]) => name)))];
    const head = make("tr"), body = make("tbody");
    for (const [i, name] of ["strategy", ...metrics, "tokens as ar", "speedup", "decoding", "in all"].entries()) {
      const cell = make("th", i ? "n" : "w", name);
      cell.scope = "col";
      head.append(cell);
    }
    sample.answers.forEach((answer, i) => {
      const line = make("tr"), name = make("th"), pick = make("button", "pick", answer.label);
      name.scope = "row";
      pick.setAttribute("aria-pressed", i === number);
      pick.addEventListener("click", () => {
        show(sample, row, i);
        byId("g-body").querySelectorAll(".pick")[i].focus();
      });
      put(line, put(name, pick));
      for (const metric of metrics) {
        const [, value, points] = answer.scores.find(([own]) => own === metric) ?? [metric, "–", null];
        line.append(make("td", points < 0 ? "n bad1" : "n", points ? `${value} (${change(points)} points)` : value));
      }
      const same = answer.status !== "ok" ? answer.status : answer.identical === null ? "–" : answer.identical ? "yes" : "no";
      put(line, make("td", "n", same), make("td", "n", answer.speedup === null ? "–" : `${answer.speedup.toFixed(2)}×`),
        ...answer.time.map((time) => make("td", "n", time)));
      body.append(line);
    });
    const table = put(make("table"), make("caption", "quiet", "Answers"), put(make("thead"), head), body);
    return put(scrolling(make("div", "scroll"), "Answers"), table);
  };

  const option = (type, name, checked, said, act) => {
    const input = make("input");
    input.type = type;
    input.name = name;
    input.checked = checked;
    input.addEventListener("change", () => act(input));
    return put(make("label"), input, ` ${said}`);
  };

  const text = (sample, answer, again) => {
    const found = [], redraw = (name, set) => (input) => {
      set(input);
      again();
      byId("g-body").querySelector(`[name=${name}]:checked, [type=checkbox][name=${name}]`)?.focus();
    };
    if (answer.error) found.push(make("p", "banner", answer.error));
    for (const reason of answer.reasons) if (reason !== answer.error) found.push(make("p", "note", reason));
    const sides = [["reference", "ground truth"], ["base", answer.base], ["", "nothing"]]
      .filter(([side, name]) => name && (side !== "reference" || sample.reference !== null));
    const side = sides.some(([one]) => one === state.against) ? state.against : sides[0][0];
    const choice = put(make("fieldset", "say"), make("legend", "", "Compare with"), ...sides.map(([one, name]) => (
      option("radio", "against", one === side, name, redraw("against", () => { state.against = one; })))));
    put(choice, option("checkbox", "layout", !state.layout, "ignore line breaks, title and bold marks",
      redraw("layout", (input) => { state.layout = !input.checked; })));
    const own = answer.same === null ? answer.diff : sample.answers[answer.same].diff;
    const bare = () => [["=", own.filter(([kind]) => !"-<".includes(kind)).map(([, part, raw]) => raw ?? part).join("")]];
    const segments = side === "reference" ? own : side === "base" && answer.versus ? answer.versus : bare();
    const shown = scrolling(make("pre"), `Text of ${answer.label}`);
    shown.append(...segments.map(segment).filter((node) => node !== null));
    const facts = [answer.status === "ok" ? `stopped by ${answer.stop}` : answer.status, `${answer.ids.length} tokens`];
    if (answer.loop) facts.push("contains a repetition loop");
    if (answer.same !== null) facts.push(`same text as ${sample.answers[answer.same].label}`);
    else if (side === "base" && !answer.versus) facts.push(`same text as ${answer.base}`);
    const marked = segments.map(([kind]) => kind !== "=" && (state.layout || "-+".includes(kind)));
    const changed = marked.filter((mark, i) => mark && !marked[i - 1]).length;
    if (side) facts.push(changed ? `${changed} place${changed > 1 ? "s differ" : " differs"}` : "no place differs");
    found.push(choice, shown.textContent ? shown : make("p", "absent", "No text."));
    const legend = make("p", "legend", `${facts.join(" · ")} `);
    if (changed) put(legend, make("del", "", `only in ${sides.find(([one]) => one === side)[1]}`), " ", make("ins", "", `only in ${answer.label}`));
    return [...found, legend];
  };

  // Layout that differs: in signs, or as the answer has it where layout is not compared.
  const segment = ([kind, part, raw]) => {
    if (kind === "=") return part;
    if (kind === "-" || kind === "+") return make(kind === "-" ? "del" : "ins", "", part);
    if (!state.layout) return kind === ">" ? raw : null;
    return make(kind === "<" ? "del" : "ins", "lay", part);
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
    const found = answer.split === null ? [] : [make("p", "note", parting(answer))];
    if (answer.strip === null) return [...found, make("p", "absent", "The engine did not report its rounds.")];
    if (!answer.ids.length) return found;
    const split = answer.split, used = new Set(), groups = [];
    const holder = scrolling(make("div", "strip"), `Rounds of ${answer.label}`);
    let at = 0, number = 0;
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
    const group = (nodes, note) => {
      const node = put(make("span", "r"), ...nodes);
      groups.push({ node, note: `${note}; ${at} of ${answer.ids.length} tokens` });
      put(holder, node, " ");
    };
    for (const rounds of answer.strip) {
      group([token("p", "prefill")], "prefill");
      for (const [kinds, offered, rejected, dropped] of rounds) {
        number += 1;
        const note = `round ${number}, ${offered} drafted`;
        const nodes = [...kinds].map((kind) => token(kind, note));
        if (rejected) nodes.push(ghost("x", rejected, note));
        if (dropped) nodes.push(ghost("d", dropped, note));
        group(nodes, `${note}, ${offered - rejected} accepted, ${kinds.length} committed`);
      }
    }
    const legend = make("p", "legend", `${number} rounds. `);
    for (const kind of used) put(legend, make("b", `k-${kind}`, NAMES[kind]), " ");
    if (holder.querySelector(".parts")) put(legend, make("b", "parts", `first difference from ${split.base}`));
    return [...found, make("h4", "", `Round by round: ${answer.label}`), player(holder, groups), holder, legend];
  };

  // Plays the rounds: those to come are dimmed, the last one that ran is framed and told in words.
  const player = (holder, groups) => {
    const play = make("button", "", "Play"), slider = make("input"), said = make("output");
    slider.type = "range";
    slider.min = 1;
    slider.max = groups.length;
    slider.value = groups.length;
    slider.setAttribute("aria-label", "Round");
    const draw = () => {
      const last = Number(slider.value) - 1, whole = last === groups.length - 1 && !state.timer;
      groups.forEach(({ node }, i) => {
        node.classList.toggle("todo", i > last);
        node.classList.toggle("now", i === last && !whole);
      });
      said.textContent = groups[last].note;
      slider.setAttribute("aria-valuetext", groups[last].note);
      const { node } = groups[last], top = node.offsetTop - holder.offsetTop;
      if (!whole && (top < holder.scrollTop || top + node.offsetHeight > holder.scrollTop + holder.clientHeight)) holder.scrollTop = top;
    };
    const stop = () => {
      state.timer = clearInterval(state.timer) ?? 0;
      play.textContent = "Play";
      draw();
    };
    play.addEventListener("click", () => {
      if (state.timer) return stop();
      if (Number(slider.value) === groups.length) slider.value = 1;
      play.textContent = "Pause";
      state.timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        if (Number(slider.value) === groups.length) stop(); else draw();
      }, STEP_MS);
      draw();
    });
    slider.addEventListener("input", () => (state.timer ? stop() : draw()));
    said.textContent = groups.at(-1).note;
    return put(make("div", "play"), play, slider, said);
  };

  const choices = (id, values) => {
    byId(id).append(...values.map((value) => new Option(value, value)));
    byId(id).parentElement.hidden = values.length < 2;
  };

  const start = async () => {
    const { rows, ...names } = await unpack("g-index");
    Object.assign(state, names);
    state.rows = rows.map(named);
    choices("g-task", [...new Set(state.rows.map((row) => row.task))].sort());
    choices("g-arm", state.labels);
    byId("g-form").addEventListener("input", filter);
    byId("g-form").addEventListener("submit", (event) => event.preventDefault());
    byId("g-back").addEventListener("click", () => { state.page -= 1; list(); });
    byId("g-next").addEventListener("click", () => { state.page += 1; list(); });
    byId("g-earlier").addEventListener("click", () => step(-1));
    byId("g-later").addEventListener("click", () => step(1));
    byId("g-close").addEventListener("click", () => byId("g-detail").close());
    byId("g-detail").addEventListener("close", closed);
    byId("g-detail").addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const typing = event.target.closest("input, .scroll") || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
      if (by && !typing) { event.preventDefault(); step(by); }
    });
    filter();
    addEventListener("hashchange", open);
    await open();
    document.documentElement.dataset.ready = "yes";
  };

  // What the address names: `#sample=NAME`, and `&arm=STRATEGY` if one was chosen.
  const open = async () => {
    const found = /^#sample=([^&]*)(?:&arm=(.*))?$/.exec(location.hash);
    if (!found) return byId("g-detail").open && byId("g-detail").close();
    const [name, arm] = found.slice(1).map((part) => {
      try { return decodeURIComponent(part ?? ""); } catch { return part; /* a half-written escape stays */ }
    });
    const row = state.rows.find((one) => one.name === name);
    if (row && arm !== state.arm && (!arm || state.labels.includes(arm))) {
      byId("g-arm").value = arm;
      filter();
    }
    if (row) await choose(row);
  };

  start();
})();
