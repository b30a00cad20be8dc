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
    ({ name: policy.policy, label: policy.policy, colour: `line-${policy.policy}`, dash: DASHES[policy.policy] ?? [], line: policy.lines[quantity] }));
  const asked = { name: "asked", label: "asked for", colour: "area", dash: [], line: data.trace.requested, area: true };
  linePlot(byId("plot-heap"), { title: "Heap size", lines: [asked, ...perPolicy("heap")], view, form: bytes, marks: byteTicks, height: 340 });
  linePlot(byId("plot-holes"), { title: "Number of holes", lines: perPolicy("holes"), view, form: count, marks: ticks, height: 240 });
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
    element("dl", {}, ...data.trace.about.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])));
}

head();
comparison();
holeSizes(byId("hole-sizes"), data.policies);
blockSizes(byId("block-sizes"), data);
making();
overTime();
setUpTheme(byId("theme"));
await map();
document.documentElement.dataset.ready = "";
