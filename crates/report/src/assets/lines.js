// Quantities over time: a line per policy, with the least and the most of each bucket as a band.

/** What the readout of a plot says before anything is pointed at. */
const HINT = "Point at the plot to read values.";

/** The buckets of a line that lie in the view: their first and last index. */
function visible(line, view) {
  const last = line.max.length - 1;
  const [from, to] = [view.event(view.from), view.event(view.to)];
  return [Math.max(0, Math.floor(from / line.width) - 1), Math.min(last, Math.ceil(to / line.width))];
}

/**
 * A plot. `lines`: { name, label, colour (a name in the style sheet), dash, line, area } ; `form` writes a value and
 * `markForm` a mark of the axis, `unit` is the title of that axis, `marks(from, to, about)` chooses marks.
 */
function linePlot(host, { title, unit, lines, view, form, markForm, marks, height }) {
  const canvas = element("canvas", { role: "img", "aria-label": `${title} over time, a line each for ${lines.map((line) => line.label).join(", ")}` });
  const readout = element("div", { class: "readout", "aria-live": "polite" });
  const stage = element("div", { class: "stage", tabindex: 0, "aria-label": `${title}: arrow keys read values, plus and minus zoom, 0 shows all` }, canvas);
  const far = new Set(outliers(lines, ({ line }) => line.max.reduce((most, value) => Math.max(most, value), 0)));
  const shown = new Map(lines.map((line) => [line.name, true]));
  let scalesToAll = false;
  const scaleChoice = outlierToggle(far.size, (all) => { scalesToAll = all; draw(); });
  const { reset, tools } = zoomButtons(view, () => view.showAll());
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Lines" }, ...lines.map((line) =>
    element("button", { type: "button", "aria-pressed": "true", onclick: (event) => toggle(line.name, event.currentTarget) },
      line.area ? square(line.colour) : swatch(line.colour, line.dash, line.name === "best" ? 3 : 2), line.label)));
  host.replaceChildren(element("div", { class: "plot" },
    element("div", { class: "plot-head" }, element("h3", {}, title), ...scaleChoice, tools), stage, readout, element("div", { class: "bar" }, legend)));
  let box = null;
  let place = null;
  let pointed = null;

  function toggle(name, button) {
    shown.set(name, !shown.get(name));
    button.setAttribute("aria-pressed", String(shown.get(name)));
    draw();
  }

  function most() {
    let top = 0;
    const common = lines.filter(({ name }) => shown.get(name));
    const near = common.filter((line) => !far.has(line));
    for (const { line } of scalesToAll || near.length === 0 ? common : near) {
      const [first, last] = visible(line, view);
      for (let at = first; at <= last; at += 1) top = Math.max(top, line.max[at]);
    }
    return top || 1;
  }

  function draw() {
    const { context, width, height: tall } = fit(canvas, stage.clientWidth < 500 ? Math.min(height, 240) : height);
    const wide = width >= 640;
    const top = most();
    const high = top * CHART.headroom;
    const guides = marks(0, high, CHART.marks.upwards);
    box = innerBox(context, guides.map(markForm), width, tall);
    drawAxisTitles(context, box, view.title, unit);
    place = { x: scale(view.from, view.to, box.left, box.right), y: scale(0, high, box.bottom, box.top) };
    drawAxisY(context, box, place.y, guides, markForm);
    drawAxisX(context, box, place.x, view.marks(wide ? CHART.marks.across : CHART.marks.across_narrow));
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top + 2);
    context.clip();
    for (const line of lines) if (shown.get(line.name)) drawLine(context, line);
    if (view.moment !== null) drawMoment(context);
    if (pointed !== null) drawCrosshair(context);
    context.restore();
    if (wide) drawEnds(context);
    reset.hidden = view.isWhole;
  }

  function drawLine(context, { line, area, colour: name, dash, name: id }) {
    const [first, last] = visible(line, view);
    const x = (at) => place.x(view.at(Math.min((at + 0.5) * line.width, view.events)));
    const paint = colour(name);
    const bottom = (at) => (area ? place.y(0) : place.y(line.min[at]));
    context.beginPath();
    context.moveTo(place.x(view.at(first * line.width)), bottom(first));
    for (let at = first; at <= last; at += 1) context.lineTo(x(at), place.y(line.max[at]));
    for (let at = last; at >= first; at -= 1) context.lineTo(x(at), bottom(at));
    context.fillStyle = paint;
    context.globalAlpha = area ? 1 : 0.16;
    context.fill();
    context.globalAlpha = 1;
    if (area) return;
    context.beginPath();
    for (let at = first; at <= last; at += 1) context.lineTo(x(at), place.y(line.max[at]));
    context.strokeStyle = paint;
    context.lineWidth = id === "best" ? 2.6 : 1.7;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
  }

  function drawCrosshair(context) {
    const x = Math.round(place.x(pointed)) + 0.5;
    context.strokeStyle = colour("muted");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, box.top);
    context.lineTo(x, box.bottom);
    context.stroke();
  }

  /** Where the chosen moment is. */
  function drawMoment(context) {
    const x = Math.round(place.x(view.at(view.moment)));
    context.fillStyle = colour("accent");
    context.fillRect(x - 1, box.top, 2, box.bottom - box.top);
    context.beginPath();
    context.moveTo(x - 6, box.top);
    context.lineTo(x + 6, box.top);
    context.lineTo(x, box.top + 8);
    context.fill();
  }

  /** The names of the lines where they end, none on another. */
  function drawEnds(context) {
    const ends = lines.filter((line) => shown.get(line.name)).map(({ line, label, colour: name }) => {
      const [, last] = visible(line, view);
      return { label, name, y: Math.max(box.top, place.y(line.max[last])) };
    }).sort((a, b) => a.y - b.y);
    ends.forEach((end, at) => { if (at > 0) end.y = Math.max(end.y, ends[at - 1].y + 13); });
    const over = ends.length ? ends[ends.length - 1].y - box.bottom : 0;
    for (let at = ends.length - 1, floor = box.bottom; over > 0 && at >= 0; at -= 1, floor -= 13) ends[at].y = Math.min(ends[at].y, floor);
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const { label, name, y } of ends) {
      context.fillStyle = colour(name === "area" ? "muted" : name);
      context.fillText(label, box.right + 6, y);
    }
  }

  function point(x) {
    pointed = x === null ? null : place.x.invert(x);
    if (pointed === null) readout.replaceChildren(HINT);
    else {
      const event = view.event(pointed);
      const rows = lines.filter((line) => shown.get(line.name)).map((line) => ({ ...line, at: Math.min(line.line.max.length - 1, Math.max(0, Math.floor(event / line.line.width))) }))
        .sort((a, b) => b.line.max[b.at] - a.line.max[a.at])
        .map(({ label, line, at, colour: name, dash, area }) => element("span", {}, area ? square(name) : swatch(name, dash), `${label} `, element("b", {},
          line.min[at] === line.max[at] ? form(line.max[at]) : `${form(line.min[at])} – ${form(line.max[at])}`)));
      readout.replaceChildren(element("b", {}, view.say(event)), ...rows);
    }
    draw();
  }

  interact(stage, {
    box: () => box,
    point,
    select: (left, right) => view.show(place.x.invert(left), place.x.invert(right)),
    pick: (x) => { if (view.moment !== null) view.pick(view.event(place.x.invert(x))); },
    key: (key) => timeKey(view, key, pointed ?? undefined),
  });
  readout.replaceChildren(HINT);
  view.onChange(draw);
  view.onPick(draw);
  keepDrawn(draw);
}
