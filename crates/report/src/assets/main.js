// Puts the page together.

const data = JSON.parse(byId("data").textContent);
const view = new View(data.trace.events, data.trace.clock && new Clock(data.trace.clock, data.trace.events));
const best = data.policies.reduce((least, policy) => (policy.peak_heap < least.peak_heap ? policy : least));

function head() {
  const about = new Map(data.trace.about);
  byId("program").textContent = [about.get("program"), about.get("arguments")].filter(Boolean).join(" ") || data.trace.file;
  const { recommendation } = data.real;
  const isKnown = recommendation !== null && recommendation.verdict !== "unknown";
  // What is known comes first.
  const [first, second] = isKnown ? ["verdict", "simulated"] : ["simulated", "verdict"];
  byId(first).className = "verdict";
  byId(second).className = "evidence";
  byId("head").insertBefore(byId(first), byId(second));
  if (recommendation !== null) {
    byId("verdict").append(...sentences(recommendation.text, isKnown));
    showNextStep(recommendation);
  }
  warnOfNoise(data.real);
  byId("simulated").append(...needs());
  byId("measured").textContent = measurement();
  const figure = (name, value, more) => element("div", {}, element("dt", {}, name), element("dd", {}, value, element("small", {}, more)));
  byId("figures").replaceChildren(
    figure("Events", grouped(data.trace.events), `${grouped(data.trace.blocks)} blocks`),
    figure("Peak asked for", bytes(data.trace.peak_requested), `at event ${grouped(data.trace.peak_requested_at)}`),
    figure("Least heap", bytes(best.peak_heap), nameOf(best)),
    figure("Never freed", bytes(data.trace.never_freed_bytes), plural(data.trace.never_freed, "block")));
}

/** A recommendation; the first sentence, if it recommends something, stands out. What stands between back-ticks is code. */
function sentences(text, isKnown) {
  const end = isKnown ? text.search(/\.( |$)/) + 1 : 0;
  const coded = (part) => part.split("`").map((piece, at) => (at % 2 === 1 ? element("code", {}, piece) : piece));
  return [element("strong", {}, ...coded(text.slice(0, end))), ...coded(text.slice(end))];
}

/** The command that acts on the recommendation, else the one that its text names. */
function nextStep({ command, text }) {
  return command ?? text.match(/`(heapwright [^`]*)`/)?.[1];
}

/** A button that copies a command; where that is not allowed, the command is selected. */
function copyButton(code) {
  const button = element("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: press Ctrl+C";
    }
  } }, "Copy");
  return button;
}

function showNextStep(recommendation) {
  const command = nextStep(recommendation);
  if (command === undefined) return;
  const code = element("code", {}, command);
  byId("next-step").hidden = false;
  byId("next-step").replaceChildren(element("span", {}, "Next step"), code, copyButton(code));
}

/** With more noise than this, nothing is recommended: docs/compare.md. */
const MOST_NOISE = 0.1;

function warnOfNoise({ noise, rows }) {
  if (rows.length === 0 || (noise !== null && noise <= MOST_NOISE)) return;
  byId("noise").hidden = false;
  byId("noise").textContent = noise === null ? "Noise unknown: too few rounds to judge times"
    : `High noise, ${percent(noise)}: times of the same allocator differ by more than ${percent(MOST_NOISE)}; repeat on a quiet machine`;
}

/** What the policies need. */
function needs() {
  const most = data.policies.reduce((worst, policy) => (policy.peak_heap > worst.peak_heap ? policy : worst));
  const much = (text) => element("strong", {}, text);
  return ["At most ", much(bytes(data.trace.peak_requested)), " were asked for at one time. Under ", much(nameOf(best)), " that takes a heap of ",
    much(bytes(best.peak_heap)), best.peak_over_requested ? `, ${short(best.peak_over_requested)} times as much` : "",
    most === best ? "" : `; under ${nameOf(most)} it would be ${bytes(most.peak_heap)}`, "."];
}

/** What the recommendation rests on. */
function measurement() {
  const { rounds, noise, rows } = data.real;
  if (rows.length === 0) return "Simulated alone: no allocator was run.";
  const sure = noise === null ? "" : `; times of one and the same allocator differ by ${percent(noise)}`;
  return `Simulated, and measured on this machine in ${plural(rounds, "round")}, in each of which every allocator made all calls in a process of its own${sure}.`;
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

const askedLine = { name: "asked", label: "asked for", colour: "area", dash: [], line: data.trace.requested, area: true };

function overTime() {
  const width = data.trace.requested.width;
  byId("time-note").textContent = (width > 1
    ? `Each point stands for ${grouped(width)} events; the least and the most within them are kept, as a band. `
    : "One point per event. ") + "Drag to zoom all plots over time; a double click shows all.";
  byId("time-axis").replaceChildren(...axisChoice(view));
  const perPolicy = (quantity) => data.policies.map((policy) =>
    ({ name: policy.policy, label: policy.policy, colour: `line-${policy.policy}`, dash: dashes(policy.policy), line: policy.lines[quantity] }));
  linePlot(byId("plot-heap"), { title: "Heap size", unit: "bytes", lines: [askedLine, ...perPolicy("heap")], view, form: bytes, markForm: roundBytes, marks: byteTicks, height: 340 });
  if (measured.length) linePlot(byId("plot-resident"), { title: "Resident memory, measured", unit: "resident bytes", lines: [askedLine, ...measured.map(allocatorLine)], view, form: bytes, markForm: roundBytes, marks: byteTicks, height: 300 });
  linePlot(byId("plot-holes"), { title: "Number of holes", unit: "holes", lines: perPolicy("holes"), view, form: count, markForm: count, marks: ticks, height: 240 });
}

const measured = data.real.rows.filter((row) => row.figures !== null);

/** How an allocator is drawn: policies as everywhere, the others in colours of their own. */
function allocatorLine({ allocator, figures }) {
  const others = measured.map((row) => row.allocator).filter((name) => colour(`line-${name}`) === "");
  const other = others.indexOf(allocator);
  const name = other < 0 ? allocator : `other-${other % 4}`;
  return { name: allocator, label: allocator, colour: `line-${name}`, dash: dashes(name), line: figures.line };
}

function real() {
  if (data.real.rows.length === 0) return;
  byId("real").hidden = false;
  byId("real-note").textContent = "The same calls made of real allocators on this machine, each in a process of its own that writes to its blocks. Memory is what was resident, of the heap alone, and time the processor's; both differ from machine to machine and a little from run to run. Figures are medians, the lines below are those of the first round.";
  const number = (name, value, form, more = {}) => ({ name, value: (row) => (row.figures ? value(row.figures) : null), show: (row) => (row.figures ? orDash(value(row.figures), form) : "–"), ...more });
  const interval = (row) => row.figures?.time_over_system?.interval?.map((end) => end.toFixed(2)).join(" – ") ?? "–";
  const least = measured.reduce((least, row) => (least === null || row.figures.peak_rss < least.figures.peak_rss ? row : least), null);
  byId("allocators").replaceChildren(sortable({
    label: "Allocators compared",
    rows: data.real.rows,
    mark: (row) => row === least,
    columns: [
      { name: "Allocator", value: (row) => row.allocator, show: (row) => row.allocator, text: true },
      number("Peak resident", (figures) => figures.peak_rss, bytes, { measure: true }),
      number("Peak over peak asked", (figures) => figures.peak_rss / Math.max(1, data.trace.peak_requested), short),
      number("Mean resident", (figures) => figures.average_rss, bytes),
      number("Page faults", (figures) => figures.faults, grouped),
      number("Time", (figures) => figures.seconds, seconds),
      number("Time over the system's", (figures) => figures.time_over_system?.median ?? null, short),
      number("95 % interval", (figures) => figures.time_over_system?.interval?.[0] ?? null, String, { show: interval }),
      number("Events per second", (figures) => data.trace.events / figures.seconds, count, { descending: true }),
      ...(data.real.rows.some((row) => row.error) ? [{ name: "Not measured, because", value: (row) => row.error ?? "", show: (row) => row.error ?? "", text: true }] : []),
    ],
  }));
}

/** What the whole program would take under each allocator, where the recording has enough to predict it from. */
function predicted() {
  const rows = data.real.rows.filter((row) => row.predicted !== null);
  if (rows.length === 0) return;
  for (const id of ["predicted-title", "predicted-note", "predicted"]) byId(id).hidden = false;
  byId("predicted-note").textContent = "Predicted from the recording and from the replays above: what the program does beside its heap is the same under every allocator. Predictions know nothing of the program's caches. Brackets are 95 % intervals; the verdict rests on these figures.";
  const figure = (name, key, form, more = {}) => ({ name, value: (row) => row.predicted[key]?.median ?? null, show: (row) => orDash(row.predicted[key]?.median ?? null, form), ...more });
  const ratio = (name, key) => ({
    name,
    value: (row) => row.predicted[key]?.median ?? null,
    show: (row) => {
      const estimate = row.predicted[key];
      if (!estimate) return "–";
      const interval = estimate.interval?.map((end) => end.toFixed(2)).join(", ");
      return interval ? `${estimate.median.toFixed(2)} [${interval}]` : estimate.median.toFixed(2);
    },
  });
  byId("predicted").replaceChildren(sortable({
    label: "What the whole program would take",
    rows,
    columns: [
      { name: "Allocator", value: (row) => row.allocator, show: (row) => row.allocator, text: true },
      figure("Processor time", "seconds", seconds),
      ratio("Time over the system's", "time_over_system"),
      figure("Peak resident", "peak", bytes, { measure: true }),
      ratio("Peak over the system's", "peak_over_system"),
    ],
  }));
}

/** What is to be known of maps by sites, where those of some blocks are known. */
function sampled() {
  const { blocks } = data.sites.unknown;
  return blocks === 0 ? "" : `Those of ${plural(data.trace.blocks - blocks, "block")} in ${grouped(data.trace.blocks)} are known: where any of these lay, the colour is theirs. `;
}

async function map() {
  byId("map-note").textContent = `Addresses upwards, time to the right; what is blank is a hole. A cell is as dark as it was in use, and has the colour of most of it. ${
    data.sites === null ? "" : "Sites are the places in the program that asked for the blocks; those that held most on average have colours. " + sampled()
  }The small maps have one scale of addresses. Drag over a part to see it larger.`;
  if (typeof DecompressionStream === "undefined") {
    byId("heap-map").replaceChildren(element("p", { class: "failure" }, "This browser cannot unpack the maps (it has no DecompressionStream); every browser since 2023 can. All other figures are complete."));
    return;
  }
  await heapMap(byId("heap-map"), { policies: data.policies, view, height: 440, layers: colourings(data) });
}

function making() {
  const { rules } = data;
  const growth = rules.named === null ? "grows by what is missing" : "grows by its rule";
  const region = rules.region === null ? growth : `is a fixed region of ${bytes(rules.region)}`;
  const named = rules.named === null ? "" : ` All rules: ${rules.named}.`;
  const reference = rules.reference_engines.map((policy) => ` The reference engine placed the blocks of ${policy}.`).join("");
  byId("blocks-note").textContent = `${plural(data.trace.blocks, "block")}; a resized block counts as one that goes and one that appears. ${
    plural(data.trace.never_freed, "block")} of ${bytes(data.trace.never_freed_bytes)} in all were never freed and have no lifetime.`;
  byId("making").replaceChildren(
    element("p", {}, `The trace ${data.trace.file} was replayed by heapwright's engine under each policy, without any memory being allocated. The result is exact, and the same on every machine. Granules have ${rules.granule} bytes, headers ${rules.header}; the heap ${region}.${named}${reference}`),
    element("p", {}, "Quantities over time are down-sampled by joining neighbours: every least and every most is kept. Cells of the maps are exact sums over all events of their column, rounded to 1/255."),
    element("dl", { class: "making" }, ...data.trace.about.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])));
}

/** What functions hold, where the trace has call sites. */
function whoHolds() {
  if (data.holders === null) return;
  const { every, lacking, at_event: event, totals } = data.holders;
  byId("holders").hidden = false;
  byId("holders-note").textContent = `The stacks of all requests, each as wide as its share of the measure. Held at peak is what was live after event ${
    grouped(event)}, ${bytes(totals[0])} in all. Blocks never freed may still be reachable. Temporary blocks were freed by their thread before it requested another. ${
    every > 1 ? `One request in ${every} has a stack: figures of functions are estimates. ` : ""}${lacking === null ? "" : `${lacking}. `}Click a function to zoom.`;
  const { least_share: least, rows } = data.holders.moments;
  byId("moments-note").textContent = `Click the plot, or any plot over time, to see what was held at another moment. The page has ${
    plural(rows.length, "moment")}, the peak and the end among them; except at the peak, stacks that held less than ${trimmed(100 * least)} % are left out.`;
  holders(byId("held"), data.holders, view);
  linePlot(byId("plot-asked"), { title: "Memory requested", unit: "bytes requested", lines: [askedLine], view, form: bytes, markForm: roundBytes, marks: byteTicks, height: 150 });
}

/** A trace without events has nothing to draw. */
function nothing() {
  byId("verdict").textContent = "This trace holds no events.";
  for (const id of ["simulated", "measured", "figures", "policies", "parts", "time", "map", "pins", "holes", "blocks"]) byId(id).remove();
}

async function everything() {
  head();
  whoHolds();
  comparison();
  parts(byId("heap-parts"), data.policies, data.real.rows);
  real();
  predicted();
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
