// What changed between two recordings.

const data = JSON.parse(byId("data").textContent);

/** Bars of this many rows are drawn. */
const BARS = 30;

const { before, after, rows } = data;
const nameOf = (at) => (data.measures[at] === "held" ? "Peak" : MEASURES[data.measures[at]][0]);
const formOf = (at) => MEASURES[data.measures[at]][1];
const changeOf = (row, at) => row.after[at] - row.before[at];

/** A change with its sign. */
const signed = (change, form) => (change === 0 ? "0" : `${change > 0 ? "+" : "−"}${form(Math.abs(change))}`);

/** A change as a share of what was before. */
const relative = (old, now) => (old === 0 || old === now ? "" : `${now > old ? "+" : "−"}${percent(Math.abs(now - old) / old)}`);

const isSampled = before.every > 1 || after.every > 1;

function head() {
  const recording = ({ file, events }) => `${file}: ${grouped(events)} events`;
  byId("recordings").textContent = [`${recording(before)}; ${recording(after)}`, ...data.notes].join(". ");
  const sentence = (at) => {
    const [old, now] = [before.totals[at], after.totals[at]];
    const share = relative(old, now);
    return `${nameOf(at)}: ${old === now ? "unchanged" : signed(now - old, formOf(at))}${share && ` (${share})`}`;
  };
  byId("verdict").textContent = [0, 1, 3].map(sentence).join("; ") + ".";
  byId("failures").hidden = data.failures.length === 0;
  byId("failures").replaceChildren(...data.failures.map((failure) => element("li", {}, failure)));
  byId("figures").replaceChildren(...data.measures.map((_, at) => {
    const [old, now] = [before.totals[at], after.totals[at]];
    return element("div", {}, element("dt", {}, nameOf(at)), element("dd", {}, formOf(at)(now),
      element("small", {}, `${formOf(at)(old)} before`), element("small", {}, [signed(now - old, formOf(at)), relative(old, now)].filter(Boolean).join(", "))));
  }));
}

/** What a row says: both values, the change, and its error. */
function reading(row, at) {
  const form = formOf(at);
  const error = row.deviations[at] > 0 ? ` ± ${form(row.deviations[at])}` : "";
  return `${row.name}: ${form(row.before[at])} → ${form(row.after[at])}, ${signed(changeOf(row, at), form)}${error}${row.state && `, ${row.state}`}`;
}

/** A bar to the right for growth, to the left for what shrank. */
function bar(row, at, most) {
  const change = changeOf(row, at);
  const half = (isThis) => {
    const made = element("i", { class: change > 0 ? "grew" : "shrank" });
    made.style.width = isThis ? `${(100 * Math.abs(change)) / most}%` : "0";
    return element("div", { class: "half-bar" }, made);
  };
  const say = () => { byId("reading").textContent = reading(row, at); };
  return element("div", { class: "change-row", role: "img", tabindex: 0, "aria-label": reading(row, at), onpointerenter: say, onfocus: say },
    element("span", {}, row.name), half(change < 0), half(change > 0), element("b", {}, signed(change, formOf(at))));
}

function show(at) {
  const changed = rows.filter((row) => changeOf(row, at) !== 0).sort((a, b) => Math.abs(changeOf(b, at)) - Math.abs(changeOf(a, at)));
  const most = Math.max(1, Math.abs(changed.length > 0 ? changeOf(changed[0], at) : 0));
  byId("reading").textContent = changed.length > 0 ? "Point at a bar to read its values." : "Nothing changed by this measure.";
  byId("bars").replaceChildren(...changed.slice(0, BARS).map((row) => bar(row, at, most)));
  byId("changed-note").textContent = `${plural(changed.length, "row")} changed; those that changed most are shown. ${
    isSampled ? "Not every request has a stack: figures of functions are estimates. " : ""}Functions are matched by name.`;
}

function rowsOf(state, totals) {
  const chosen = rows.filter((row) => row.state === state);
  if (chosen.length === 0) return element("p", {}, "None.");
  const ordered = chosen.sort((a, b) => b[totals][data.by] - a[totals][data.by]);
  const column = (_, at) => ({ name: nameOf(at), value: (row) => row[totals][at], show: (row) => formOf(at)(row[totals][at]), descending: true, measure: at === data.by });
  return table(state, ordered, data.measures.map(column));
}

function allRows() {
  byId("all-note").textContent = data.left_out === 0 ? "Click a heading to sort." : `Click a heading to sort. ${grouped(data.left_out)} more changed less and are left out.`;
  const column = (_, at) => ({ name: `${nameOf(at)}, change`, value: (row) => changeOf(row, at), show: (row) => signed(changeOf(row, at), formOf(at)), descending: true });
  return table("all changes", rows, data.measures.map(column));
}

function table(label, ordered, columns) {
  const first = { name: data.row, value: (row) => row.name, show: (row) => row.name, text: true };
  return element("div", { class: "scroll tall holder-tables" }, sortable({ label, rows: ordered, columns: [first, ...columns] }));
}

head();
byId("measures").replaceChildren(choice("Measure", data.measures.map((_, at) => [at, nameOf(at)]), data.by, show));
show(data.by);
byId("new-rows").replaceChildren(rowsOf("new", "after"));
byId("gone-rows").replaceChildren(rowsOf("gone", "before"));
byId("all-rows").replaceChildren(allRows());
setUpTheme(byId("theme"));
document.documentElement.dataset.ready = "";
