// What each heap consists of, as a bar for each policy and each allocator.

/** The parts of a bar from the left, how they are named and painted. */
const PARTS = [
  ["asked", "asked for", "part-asked"],
  ["rounding", "rounding and headers", "part-rounding"],
  ["holes", "holes", "part-holes"],
  ["kept", "kept by the allocator", "part-kept"],
];
const UNTOUCHED = ["untouched", "never touched, not resident", "part-untouched"];

/** The parts of a simulated heap when it was longest. */
function simulatedParts({ policy, at_peak: peak }) {
  const { requested, live, heap } = peak;
  return { name: policy, total: heap, parts: { asked: requested, rounding: live - requested, holes: heap - live, kept: 0 }, untouched: 0 };
}

/** The parts of measured memory. What is not known of an allocator is part of what it keeps. */
function measuredParts({ allocator, figures }) {
  const { asked, rounding, holes, kept } = figures.parts;
  const parts = { asked, rounding: rounding ?? 0, holes: holes ?? 0, kept: Math.max(0, kept) };
  return { name: allocator, total: figures.peak_rss, parts, untouched: Math.max(0, -kept), isHidden: rounding === null || holes === null };
}

/** The length of a bar: what is resident, and what is not. */
const lengthOf = ({ parts }) => Object.values(parts).reduce((sum, part) => sum + part, 0);

/** What a bar says when it is pointed at or read aloud. */
function partsText({ name, total, parts, untouched, isHidden }) {
  const known = PARTS.filter(([part]) => parts[part] > 0).map(([part, text]) => `${bytes(parts[part])} ${text}${part === "kept" && isHidden ? ", with what is not known of its rounding and holes" : ""}`);
  return `${name}, ${bytes(total)}: ${known.join(", ")}${untouched > 0 ? `; ${bytes(untouched)} of it ${UNTOUCHED[1]}` : ""}`;
}

/** A bar and its name; `longest` is as wide as there is room. */
function partsBar(row, longest, describe) {
  const isCut = lengthOf(row) > longest;
  const segment = (share, paint) => {
    const made = element("i");
    made.style.width = `${100 * share}%`;
    made.style.background = `var(--${paint})`;
    return made;
  };
  const bar = element("div", { class: "parts-bar" }, ...PARTS.map(([part, , paint]) => segment(row.parts[part] / longest, paint)));
  if (row.untouched > 0) {
    const over = element("i", { class: "untouched" });
    over.style.left = `${100 * (lengthOf(row) - row.untouched) / longest}%`;
    over.style.width = `${100 * row.untouched / longest}%`;
    bar.append(over);
  }
  const say = () => describe(partsText(row));
  return element("div", { class: "parts-row", role: "img", tabindex: 0, "aria-label": partsText(row), onpointerenter: say, onfocus: say },
    element("span", {}, row.name), bar, element("span", { class: "total" }, `${bytes(row.total)}${isCut ? " →" : ""}`));
}

/** The bars of one group; the longest common one sets the scale. */
function partsPlot(title, note, rows) {
  const far = new Set(outliers(rows, lengthOf));
  const docked = element("p", { class: "docked", "aria-live": "polite" }, "Point at a bar to read its parts.");
  const bars = element("div", { class: "parts-rows" });
  const show = (withOutliers) => {
    const common = rows.filter((row) => withOutliers || !far.has(row));
    const longest = Math.max(1, ...common.map(lengthOf));
    bars.replaceChildren(...rows.map((row) => partsBar(row, longest, (text) => { docked.textContent = text; })));
  };
  show(false);
  return element("div", { class: "plot" }, element("div", { class: "plot-head" }, element("h3", {}, title), ...outlierToggle(far.size, show)),
    element("p", { class: "note" }, note), docked, bars);
}

function parts(place, policies, allocators) {
  const simulated = policies.filter((policy) => policy.at_peak !== null).map(simulatedParts);
  const measured = allocators.filter((row) => row.figures?.parts).map(measuredParts);
  const key = element("div", { class: "bar parts-key" }, ...[...PARTS, UNTOUCHED].map(([part, text, paint]) =>
    element("span", {}, part === "untouched" ? element("i", { class: "untouched" }) : square(paint), text)));
  const plots = [partsPlot("Simulated heaps, in bytes of addresses", "Each when it was longest.", simulated)];
  if (measured.length > 0) plots.push(partsPlot("Real allocators, in bytes of resident memory", "Each at its peak. An allocator that does not reveal its holes or rounding has them in what it keeps.", measured));
  place.replaceChildren(key, element("div", { class: "pair" }, ...plots));
}
