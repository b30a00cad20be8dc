// Tables that sort by a click on a heading.

/**
 * A table. `columns`: { name, value(row), show(row), text, descending, measure }: what is compared, what is shown, whether it is text,
 * whether the first click sorts from the most, whether a bar shows its share of the most.
 */
function sortable({ label, columns, rows, mark }) {
  const body = element("tbody");
  const heads = columns.map((column, at) => element("th", { scope: "col", class: column.text ? "text" : undefined },
    element("button", { type: "button", onclick: () => sort(at) }, column.name)));
  const most = columns.map((column) => (column.measure ? Math.max(...rows.map((row) => column.value(row) ?? 0)) || 1 : 1));
  let sorted = null;

  function cell(row, column, at) {
    const name = at === 0 ? "th" : "td";
    const made = element(name, { scope: at === 0 ? "row" : undefined, class: column.measure ? "measure" : column.text ? "text" : undefined }, column.show(row));
    if (column.measure) {
      const bar = element("i", { "aria-hidden": "true" });
      bar.style.setProperty("--share", (column.value(row) ?? 0) / most[at]);
      made.append(bar);
    }
    return made;
  }

  function fill(ordered) {
    body.replaceChildren(...ordered.map((row) => element("tr", { class: mark?.(row) ? "best" : undefined }, ...columns.map((column, at) => cell(row, column, at)))));
  }

  function sort(at) {
    const descending = sorted?.at === at ? !sorted.descending : Boolean(columns[at].descending);
    sorted = { at, descending };
    const value = columns[at].value;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      // What is not known stands last either way.
      if (x === null || y === null) return (x === null) - (y === null);
      const order = typeof x === "string" ? x.localeCompare(y) : x - y;
      return descending ? -order : order;
    };
    heads.forEach((head, other) => {
      if (other === at) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill([...rows].sort(compare));
  }

  fill(rows);
  return element("table", { class: "data", "aria-label": label }, element("thead", {}, element("tr", {}, ...heads)), body);
}
