"use strict";
const page = (() => {
  const byId = (id) => document.getElementById(id);

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

  // The table of strategies sorts by any column; what was not measured stays last.
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const given = [...body.rows];
    const key = (row, at) => (at ? Number(row.cells[at].dataset.value ?? NaN) : row.cells[0].textContent);
    const compare = (a, b) => (typeof a === "string" ? (a < b ? -1 : a > b ? 1 : 0) : Number.isNaN(a) - Number.isNaN(b) || a - b || 0);
    heads.forEach((head, at) => {
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = at > 0 ? head.ariaSort !== "descending" : head.ariaSort === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const [there, absent] = [given.filter((row) => !Number.isNaN(key(row, at))), given.filter((row) => Number.isNaN(key(row, at)))];
        there.sort((a, b) => (down ? -1 : 1) * compare(key(a, at), key(b, at)));
        body.append(...there, ...absent);
      });
    });
  };

  // A chart says the numbers of the point nearest to the pointer; arrow keys walk through its points.
  const readable = (plot) => {
    const svg = plot.querySelector("svg[data-points]");
    if (!svg) return;
    const points = JSON.parse(svg.dataset.points);
    let [out, spot, at] = [null, null, -1];
    const tell = (index) => {
      if (!out) {
        out = make("p", "readout");
        out.setAttribute("role", "status");
        spot = make("i", "spot");
        plot.append(out, spot);
      }
      at = index;
      const [x, y, said] = points[at];
      spot.style.left = `${(x / 100) * svg.clientWidth}px`;
      spot.style.top = `${(y / 100) * svg.clientHeight}px`;
      out.textContent = said;
    };
    plot.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const far = ([px, py]) => ((px / 100) * box.width - x) ** 2 + ((py / 100) * box.height - y) ** 2;
      tell(points.reduce((best, point, i) => (far(point) < far(points[best]) ? i : best), 0));
    });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      tell((at + step + points.length) % points.length);
    });
  };

  // A link to a folded part opens it.
  const unfold = () => {
    const aim = location.hash.length > 1 && !location.hash.includes("=") && byId(location.hash.slice(1));
    const fold = aim && aim.querySelectorAll("details").length === 1 && aim.querySelector("details");
    if (fold) fold.open = true;
  };

  for (const table of document.querySelectorAll("table.arms")) sortable(table);
  for (const plot of document.querySelectorAll(".plot")) readable(plot);
  addEventListener("hashchange", unfold);
  unfold();

  return { byId, make, put, unpack, plain };
})();
