// Which functions hold the memory: all stacks as an icicle, at any moment, functions and threads as tables, by any measure.

/** Narrower parts of an icicle are not drawn, as a share of its width. */
const NARROWEST = 0.0015;

/** Nodes from the outermost function on, the root first: { name, values, parent, next }. */
function stacksFromOutside({ frames, parents, names, values }) {
  const nodes = parents.map((_, at) => ({ name: at === 0 ? "all" : frames[names[at]], values: [...values[at]], parent: null, next: [] }));
  for (let at = 1; at < nodes.length; at += 1) {
    nodes[at].parent = nodes[parents[at]];
    nodes[parents[at]].next.push(nodes[at]);
  }
  return nodes;
}

/** The same from the functions that request memory to their callers. */
function stacksFromInside(root) {
  const inside = { name: "all", values: root.values, parent: null, next: [] };
  const add = (node, own) => {
    let at = inside;
    for (let from = node; from.parent !== null; from = from.parent) {
      let next = at.next.find(({ name }) => name === from.name);
      if (next === undefined) at.next.push(next = { name: from.name, values: own.map(() => 0), parent: at, next: [] });
      next.values = next.values.map((value, measure) => value + own[measure]);
      at = next;
    }
  };
  const visit = (node) => {
    const own = node.values.map((value, measure) => value - node.next.reduce((sum, next) => sum + next.values[measure], 0));
    if (node.parent !== null && own.some((value) => value > 0)) add(node, own);
    node.next.forEach(visit);
  };
  visit(root);
  return inside;
}

/** The nodes that a search finds, none of which is inside another. */
function found(node, text) {
  if (node.parent !== null && node.name.toLowerCase().includes(text)) return [node];
  return node.next.flatMap((next) => found(next, text));
}

/** The row of the moments that is nearest to an event. */
function nearestMoment({ rows }, event) {
  const distance = (at) => Math.abs(rows[at].event - event);
  return rows.reduce((nearest, _, at) => (distance(at) < distance(nearest) ? at : nearest), 0);
}

/** Gives the nodes what they held at a moment; at the peak that is known of all. */
function holdAt(nodes, data, at) {
  const { rows, peak } = data.moments;
  nodes.forEach((node, number) => { node.values[0] = at === peak ? data.tree.values[number][0] : 0; });
  if (at === peak) return;
  nodes[0].values[0] = rows[at].held;
  rows[at].nodes.forEach((number, index) => { nodes[number].values[0] = rows[at].bytes[index]; });
}

/** The buttons that go from moment to moment. */
function momentButtons(view, moments) {
  const button = (label, text, at) => element("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => {
    view.pick(moments.rows[Math.min(moments.rows.length - 1, Math.max(0, at(nearestMoment(moments, view.moment))))].event);
  } }, text);
  return element("span", { class: "choice", role: "group", "aria-label": "Moment" }, "Moment ",
    button("The moment before", "←", (at) => at - 1), button("The next moment", "→", (at) => at + 1),
    button("The peak", "peak", () => moments.peak), button("The end", "end", () => moments.rows.length - 1));
}

function holders(place, data, view) {
  const nodes = stacksFromOutside(data.tree);
  const roots = { outside: nodes[0] };
  const state = { measure: 0, direction: "outside", zoom: roots.outside, text: "", held: "" };
  const isSampled = data.every > 1;
  const ofWhat = isSampled ? "the estimate of all" : "all";
  const form = () => MEASURES[data.measures[state.measure]][1];
  const value = (node) => node.values[state.measure];
  const stage = element("div", { class: "flames", role: "img", "aria-label": "Stacks as an icicle; the tables below have the same figures" });
  const docked = element("p", { class: "docked", "aria-live": "polite" });
  const tables = element("div", { class: "holder-tables" });

  function describe(node) {
    const share = (sum) => percent(value(node) / Math.max(1, sum));
    const ofZoom = state.zoom.parent === null ? "" : `, ${share(value(state.zoom))} of ${state.zoom.name}`;
    docked.textContent = `${node.name}: ${form()(value(node))}, ${share(value(roots[state.direction]))} of ${ofWhat}${ofZoom}`;
  }

  function summarize() {
    const root = roots[state.direction];
    if (state.text === "") return describe(state.zoom);
    const matches = found(root, state.text);
    const sum = matches.reduce((sum, node) => sum + value(node), 0);
    docked.textContent = `“${state.text}” is in ${plural(matches.length, "stack part")} with ${form()(sum)}, ${percent(sum / Math.max(1, value(root)))} of ${ofWhat}`;
  }

  function part(node, left, width, depth, isAbove) {
    const tint = [...node.name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7) % 4;
    const isFound = state.text !== "" && node.name.toLowerCase().includes(state.text);
    const made = element("button", {
      type: "button", tabindex: "-1", "aria-label": node.name, class: `flame tint-${tint}${isAbove ? " above" : ""}${isFound ? " found" : ""}`,
      onclick: () => { state.zoom = node; draw(); }, onpointerenter: () => describe(node),
    }, width > 0.02 ? node.name : "");
    made.style.left = `${100 * left}%`;
    made.style.width = `${100 * width}%`;
    made.style.top = `${depth * 21}px`;
    return made;
  }

  function draw() {
    const above = [];
    for (let node = state.zoom.parent; node !== null; node = node.parent) above.unshift(node);
    const parts = above.map((node, depth) => part(node, 0, 1, depth, true));
    let deepest = above.length;
    const visit = (node, left, width, depth) => {
      parts.push(part(node, left, width, depth, false));
      deepest = Math.max(deepest, depth);
      let at = left;
      for (const next of [...node.next].sort((a, b) => value(b) - value(a))) {
        const share = (width * value(next)) / Math.max(1, value(node));
        if (share >= NARROWEST) visit(next, at, share, depth + 1);
        at += share;
      }
    };
    visit(state.zoom, 0, 1, above.length);
    stage.style.height = `${(deepest + 1) * 21}px`;
    stage.replaceChildren(...parts);
    summarize();
  }

  function table(label, first, rows, show) {
    const column = (name, at) => ({ name: MEASURES[name][0], value: (row) => row.values[at], show: (row) => MEASURES[name][1](row.values[at]), descending: true, measure: at === state.measure });
    const ordered = [...rows].sort((a, b) => b.values[state.measure] - a.values[state.measure]);
    return element("div", { class: "scroll tall" }, sortable({
      label, rows: ordered,
      columns: [{ name: first, value: (row) => row.name, show, text: true }, ...data.measures.map(column)],
    }));
  }

  function fillTables() {
    tables.replaceChildren(element("h3", {}, "By function"), table("By function", "Function", data.functions, (row) => row.name));
    if (data.threads.length > 1) tables.append(element("h3", {}, "By thread"), table("By thread", "Thread", data.threads, (row) => `thread ${row.name}`));
  }

  /** Shows what was held at the chosen moment. */
  function showMoment() {
    const at = nearestMoment(data.moments, view.moment);
    const { event, held, deviation } = data.moments.rows[at];
    const isPeak = at === data.moments.peak;
    holdAt(nodes, data, at);
    delete roots.inside;
    if (state.direction === "inside") roots.inside = stacksFromInside(roots.outside);
    if (state.direction === "inside" || value(state.zoom) === 0) state.zoom = roots[state.direction];
    state.held = `Held ${isPeak ? "at the peak, " : ""}after ${view.say(event)}: ${bytes(held)}${isSampled ? ` ± ${bytes(deviation)}, an estimate from one request in ${data.every}` : ""}`;
    if (state.measure === 0) show();
    else measures.querySelector("button").click();
  }

  /** Says what the stacks are parts of, and draws them. Only what is held is that of a moment. */
  function show() {
    const name = MEASURES[data.measures[state.measure]][0];
    moment.textContent = state.measure === 0 ? state.held : `${name} in the whole recording: ${form()(value(roots.outside))}`;
    draw();
  }

  const measures = choice("Measure", data.measures.map((name, at) => [at, at === 0 ? "Held" : MEASURES[name][0]]), 0, (at) => { state.measure = at; show(); fillTables(); });
  const directions = choice("From", [["outside", "main"], ["inside", "allocating function"]], "outside", (direction) => {
    roots.inside ??= stacksFromInside(roots.outside);
    Object.assign(state, { direction, zoom: roots[direction] });
    draw();
  });
  const search = element("input", { type: "search", placeholder: "Search functions", "aria-label": "Search functions", oninput: () => { state.text = search.value.trim().toLowerCase(); draw(); } });
  const whole = element("button", { type: "button", class: "quiet", onclick: () => { state.zoom = roots[state.direction]; draw(); } }, "Show all");
  stage.addEventListener("pointerleave", summarize);
  const moment = element("p", { class: "moment", "aria-live": "polite" });
  place.replaceChildren(element("div", { class: "bar" }, measures, directions, search, whole),
    element("div", { class: "plot" }, element("div", { class: "plot-head" }, moment, momentButtons(view, data.moments)), docked, stage), tables);
  fillTables();
  view.onPick(showMoment);
  view.pick(data.moments.rows[data.moments.peak].event);
}
