// Puts the page together.

const data = JSON.parse(byId("data").textContent);
const view = new View(data.trace.events);
const best = data.policies.reduce((least, policy) => (policy.peak_heap < least.peak_heap ? policy : least));

function head() {
  const about = new Map(data.trace.about);
  byId("program").textContent = [about.get("program"), about.get("arguments")].filter(Boolean).join(" ") || data.trace.file;
  const most = data.policies.reduce((worst, policy) => (policy.peak_heap > worst.peak_heap ? policy : worst));
  const verdict = byId("verdict");
  verdict.replaceChildren("At most ", element("strong", {}, bytes(data.trace.peak_requested)), " were asked for at one time. Under ",
    element("strong", {}, nameOf(best)), " that takes a heap of ", element("strong", {}, bytes(best.peak_heap)));
  if (best.peak_over_requested) verdict.append(`, ${short(best.peak_over_requested)} times as much`);
  if (most !== best) verdict.append(`; under ${nameOf(most)} it would be ${bytes(most.peak_heap)}`);
  verdict.append(".");
  const figure = (name, value, more) => element("div", {}, element("dt", {}, name), element("dd", {}, value, element("small", {}, more)));
  byId("figures").replaceChildren(
    figure("Events", grouped(data.trace.events), `${grouped(data.trace.blocks)} blocks`),
    figure("Peak asked for", bytes(data.trace.peak_requested), `at event ${grouped(data.trace.peak_requested_at)}`),
    figure("Least heap", bytes(best.peak_heap), nameOf(best)),
    figure("Never freed", bytes(data.trace.never_freed_bytes), plural(data.trace.never_freed, "block")));
}

const nameOf = ({ policy }) => (policy === "buddy" ? "binary buddies" : `${policy} fit`);

function comparison() {
  const number = (name, value, form, more = {}) => ({ name, value, show: (row) => orDash(value(row), form), ...more });
  byId("comparison").replaceChildren(sortable({
    label: "Policies compared",
    rows: data.policies,
    mark: (row) => row === best,
    columns: [
      { name: "Policy", value: (row) => row.policy, show: (row) => row.policy, text: true },
      number("Peak heap", (row) => row.peak_heap, bytes, { measure: true }),
      number("Peak heap over peak asked", (row) => row.peak_over_requested, short),
      number("Holes at the peak", (row) => row.at_peak?.holes ?? null, grouped, { descending: true }),
      number("External fragmentation at the peak", (row) => row.at_peak?.external_fragmentation ?? null, percent, { descending: true }),
      number("External fragmentation at the end", (row) => row.external_fragmentation, percent, { descending: true }),
      number("Splits", (row) => row.splits, grouped, { descending: true }),
      number("Coalesces", (row) => row.coalesces, grouped, { descending: true }),
      number("Moved", (row) => row.moved, grouped, { descending: true }),
      ...(data.policies.some((row) => row.refused > 0) ? [number("Refused", (row) => row.refused, grouped, { descending: true })] : []),
    ],
  }));
}

function overTime() {
  const width = data.trace.requested.width;
  byId("time-note").textContent = (width > 1
    ? `Each point stands for ${grouped(width)} events; the least and the most within them are kept, as a band. `
    : "One point per event. ") + "Drag to zoom all plots over time; a double click shows all.";
  const perPolicy = (quantity) => data.policies.map((policy) =>
    ({ name: policy.policy, label: policy.policy, colour: `line-${policy.policy}`, dash: dashes(policy.policy), line: policy.lines[quantity] }));
  const asked = { name: "asked", label: "asked for", colour: "area", dash: [], line: data.trace.requested, area: true };
  linePlot(byId("plot-heap"), { title: "Heap size", lines: [asked, ...perPolicy("heap")], view, form: bytes, markForm: roundBytes, marks: byteTicks, height: 340 });
  if (measured.length) linePlot(byId("plot-resident"), { title: "Resident memory, measured", lines: [asked, ...measured.map(allocatorLine)], view, form: bytes, markForm: roundBytes, marks: byteTicks, height: 300 });
  linePlot(byId("plot-holes"), { title: "Number of holes", lines: perPolicy("holes"), view, form: count, markForm: count, marks: ticks, height: 240 });
}

const measured = data.real.filter((row) => row.figures !== null);

/** How an allocator is drawn: policies as everywhere, the others in colours of their own. */
function allocatorLine({ allocator, figures }) {
  const others = measured.map((row) => row.allocator).filter((name) => colour(`line-${name}`) === "");
  const other = others.indexOf(allocator);
  const name = other < 0 ? allocator : `other-${other % 4}`;
  return { name: allocator, label: allocator, colour: `line-${name}`, dash: dashes(name), line: figures.line };
}

function real() {
  if (data.real.length === 0) return;
  byId("real").hidden = false;
  byId("real-note").textContent = "The same calls made of real allocators on this machine, each in a process of its own that writes to its blocks. Memory is what was resident, of the heap alone; times and sizes differ from machine to machine and a little from run to run.";
  const number = (name, value, form, more = {}) => ({ name, value: (row) => (row.figures ? value(row.figures) : null), show: (row) => (row.figures ? form(value(row.figures)) : "–"), ...more });
  const least = measured.reduce((least, row) => (least === null || row.figures.peak_rss < least.figures.peak_rss ? row : least), null);
  byId("allocators").replaceChildren(sortable({
    label: "Allocators compared",
    rows: data.real,
    mark: (row) => row === least,
    columns: [
      { name: "Allocator", value: (row) => row.allocator, show: (row) => row.allocator, text: true },
      number("Peak resident", (figures) => figures.peak_rss, bytes, { measure: true }),
      number("Peak over peak asked", (figures) => figures.peak_rss / Math.max(1, data.trace.peak_requested), short),
      number("Mean resident", (figures) => figures.average_rss, bytes),
      number("Page faults", (figures) => figures.faults, grouped),
      number("Time", (figures) => figures.seconds, seconds),
      number("Events per second", (figures) => data.trace.events / figures.seconds, count, { descending: true }),
      ...(data.real.some((row) => row.error) ? [{ name: "Not measured, because", value: (row) => row.error ?? "", show: (row) => row.error ?? "", text: true }] : []),
    ],
  }));
}

async function map() {
  const { map: first } = data.policies[0];
  byId("map-note").textContent = `Addresses upwards, events to the right; what is blank is a hole. The small maps have one scale of addresses. A cell stands for ${
    grouped(first.column_events)} events and for one of at most 400 ranges of addresses; it is as dark as it was in use, and has the colour of most of it. Drag over a part to see it larger.`;
  if (typeof DecompressionStream === "undefined") {
    byId("heap-map").replaceChildren(element("p", { class: "failure" }, "This browser cannot unpack the maps (it has no DecompressionStream); every browser since 2023 can. All other figures are complete."));
    return;
  }
  await heapMap(byId("heap-map"), { policies: data.policies, view, height: 440 });
}

function making() {
  const { rules } = data;
  const region = rules.region === null ? "grows by what is missing" : `is a fixed region of ${bytes(rules.region)}`;
  byId("blocks-note").textContent = `${plural(data.trace.blocks, "block")}; a resized block counts as one that goes and one that appears. ${
    plural(data.trace.never_freed, "block")} of ${bytes(data.trace.never_freed_bytes)} in all were never freed and have no lifetime.`;
  byId("making").replaceChildren(
    element("p", {}, `The trace ${data.trace.file} was replayed by heapwright's engine under each policy, without any memory being allocated. The result is exact, and the same on every machine. Granules have ${rules.granule} bytes, headers ${rules.header}; the heap ${region}.`),
    element("p", {}, "Quantities over time are down-sampled by joining neighbours: every least and every most is kept. Cells of the maps are exact sums over all events of their column, rounded to 1/255."),
    element("dl", { class: "making" }, ...data.trace.about.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])));
}

/** A trace without events has nothing to draw. */
function nothing() {
  byId("verdict").textContent = "This trace holds no events.";
  for (const id of ["figures", "policies", "time", "map", "pins", "holes", "blocks"]) byId(id).remove();
}

async function everything() {
  head();
  comparison();
  real();
  pinned(byId("pinned"), data.policies, data.trace.events);
  holeSizes(byId("hole-sizes"), data.policies);
  blockSizes(byId("block-sizes"), data);
  overTime();
  await map();
}

making();
setUpTheme(byId("theme"));
if (data.trace.events === 0) nothing();
else await everything();
document.documentElement.dataset.ready = "";
