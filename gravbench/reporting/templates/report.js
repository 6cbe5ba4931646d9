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

  return { byId, make, put, unpack, plain };
})();
