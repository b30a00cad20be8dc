// A canvas with axes that can be read by the pointer, dragged over and used by keys.

/** Makes a canvas as wide as its place, sharp on this screen; returns its context and its size. */
function fit(canvas, height) {
  const ratio = devicePixelRatio || 1;
  const width = Math.max(80, canvas.parentElement.clientWidth);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  context.lineJoin = "round";
  return { context, width, height };
}

/** Where in a canvas the plot itself goes: at the same place in all, so that times lie above one another. */
function innerBox(context, labels, width, height) {
  const [left, right] = width >= 640 ? [64, 68] : [54, 6];
  const widest = Math.max(...labels.map((label) => context.measureText(label).width));
  return { left: Math.max(left, widest + 12), right: width - right, end: width, top: 22, bottom: height - 42 };
}

/** What the axes show, and in which unit. */
function drawAxisTitles(context, box, across, upwards) {
  context.fillStyle = colour("muted");
  context.textBaseline = "top";
  context.textAlign = "left";
  context.fillText(upwards, 0, 2);
  context.textAlign = "center";
  context.fillText(across, (box.left + box.right) / 2, box.bottom + 25);
}

/** Lines across, with what they stand for. */
function drawAxisY(context, box, place, marks, label) {
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const mark of marks) {
    const y = Math.round(place(mark)) + 0.5;
    context.strokeStyle = colour(mark === 0 ? "rule" : "grid");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(box.left, y);
    context.lineTo(box.right, y);
    context.stroke();
    context.fillStyle = colour("muted");
    context.fillText(label(mark), box.left - 8, y);
  }
}

/** Marks below, with what they stand for. */
function drawAxisX(context, box, place, marks) {
  context.textAlign = "center";
  context.textBaseline = "top";
  context.fillStyle = colour("muted");
  context.strokeStyle = colour("rule");
  for (const { at, text } of marks) {
    const x = Math.round(place(at)) + 0.5;
    context.beginPath();
    context.moveTo(x, box.bottom);
    context.lineTo(x, box.bottom + 4);
    context.stroke();
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, box.left + half - 8), box.end - half), box.bottom + 7);
  }
}

/**
 * Lets a stage be read and zoomed. `tools.box()` is the inner rectangle, `tools.point(x, y)` is called with the place of
 * the pointer or of the arrow keys (or null), `tools.select(left, right, top, bottom)` with the area that was dragged over,
 * `tools.pick(x, y)`, if there is one, with the place of a click or of Enter, `tools.key(name)` with other keys.
 */
function interact(stage, tools) {
  const selection = element("div", { class: "selection", hidden: true });
  stage.append(selection);
  let start = null;
  let cursor = null;
  let wasDragged = false;
  const at = (event) => {
    const bounds = stage.getBoundingClientRect();
    const box = tools.box();
    const within = (value, low, high) => Math.min(high, Math.max(low, value));
    return [within(event.clientX - bounds.left, box.left, box.right), within(event.clientY - bounds.top, box.top, box.bottom)];
  };
  const area = (end) => {
    const box = tools.box();
    const [left, right] = [start[0], end[0]].sort((a, b) => a - b);
    const [top, bottom] = tools.boxed ? [start[1], end[1]].sort((a, b) => a - b) : [box.top, box.bottom];
    return { left, right, top, bottom };
  };
  const show = (end) => {
    const { left, right, top, bottom } = area(end);
    Object.assign(selection.style, { left: `${left}px`, width: `${right - left}px`, top: `${top}px`, height: `${bottom - top}px` });
    selection.hidden = right - left < 3;
  };
  stage.addEventListener("pointerdown", (event) => {
    wasDragged = false;
    if (event.button !== 0 || event.pointerType === "touch") return;
    start = at(event);
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    cursor = at(event);
    tools.point(...cursor);
    if (start) show(cursor);
  });
  stage.addEventListener("pointerup", (event) => {
    if (!start) return;
    const { left, right, top, bottom } = area(at(event));
    start = null;
    selection.hidden = true;
    wasDragged = right - left >= 6;
    if (wasDragged) tools.select(left, right, top, bottom);
  });
  stage.addEventListener("click", (event) => { if (!wasDragged) tools.pick?.(...at(event)); });
  stage.addEventListener("pointercancel", () => { start = null; selection.hidden = true; });
  stage.addEventListener("pointerleave", () => { if (!start) tools.point(null); });
  stage.addEventListener("blur", () => tools.point(null));
  stage.addEventListener("dblclick", () => tools.key("0"));
  stage.addEventListener("keydown", (event) => {
    const box = tools.box();
    const step = event.shiftKey ? 40 : 8;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const move = moves[event.key];
    if (move && (move[0] || tools.boxed)) {
      const [x, y] = cursor ?? [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      cursor = [Math.min(box.right, Math.max(box.left, x + move[0])), Math.min(box.bottom, Math.max(box.top, y + move[1]))];
      tools.point(...cursor);
    } else if (event.key === "Enter" && cursor) {
      tools.pick?.(...cursor);
    } else if (!tools.key(event.key)) {
      return;
    }
    event.preventDefault();
  });
}

/** Buttons to zoom without dragging. */
function zoomButtons(view, showAll) {
  const button = (label, text, press) => element("button", { type: "button", class: "quiet", "aria-label": label, onclick: press }, text);
  const reset = button("Show all", "Show all", showAll);
  const tools = element("div", { class: "tools" }, reset, button("Zoom out", "−", () => view.zoom(2)), button("Zoom in", "+", () => view.zoom(0.5)));
  return { reset, tools };
}

/** The keys of all plots over time: + and - zoom, 0 shows all, [ and ] move. */
function timeKey(view, key, place) {
  if (key === "+" || key === "=") view.zoom(0.5, place);
  else if (key === "-") view.zoom(2, place);
  else if (key === "0" || key === "Escape") view.showAll();
  else if (key === "[") view.move(-0.5);
  else if (key === "]") view.move(0.5);
  else return false;
  return true;
}
