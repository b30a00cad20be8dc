// Maps of a heap: addresses upwards, time to the right, and what lay there.

const LAYERS = {
  size: { label: "size", classes: ["≤ 16 B", "≤ 64 B", "≤ 256 B", "≤ 1 KiB", "≤ 4 KiB", "≤ 16 KiB", "≤ 64 KiB", "> 64 KiB"] },
  age: { label: "age", classes: ["first eighth", "second", "third", "fourth", "fifth", "sixth", "seventh", "last eighth"] },
};

/** Unpacks the planes of a map. */
async function unpack(map) {
  const packed = Uint8Array.from(atob(map.planes), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A picture of a map, a pixel per cell, the lowest addresses at the bottom; `only` is the one class to show, or null. */
function picture(map, planes, layer, only) {
  const { rows, columns } = map;
  const plane = rows * columns;
  const classes = planes.subarray(plane * (1 + map.layers.indexOf(layer)));
  const paints = LAYERS[layer].classes.map((_, at) => channels(colour(`${layer}-${at}`)));
  const canvas = element("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const from = row * columns + column;
      const to = 4 * ((rows - 1 - row) * columns + column);
      const [red, green, blue] = paints[classes[from]];
      image.data[to] = red;
      image.data[to + 1] = green;
      image.data[to + 2] = blue;
      image.data[to + 3] = only === null || classes[from] === only ? planes[from] : planes[from] * 0.12;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The map of one policy at a time, and small ones of all to choose from. */
function heapMap(host, { policies, view, height }) {
  const planes = new Map();
  const tallest = Math.max(...policies.map((policy) => policy.map.rows * policy.map.row_bytes));
  let policy = policies.reduce((best, other) => (other.peak_heap < best.peak_heap ? other : best));
  let layer = "size";
  let only = null;
  let image = null;
  let box = null;
  let place = null;
  let addresses = null;

  const canvas = element("canvas", { role: "img" });
  const readout = element("div", { class: "readout", hidden: true, "aria-live": "polite" });
  const stage = element("div", { class: "stage", tabindex: 0, "aria-label": "Heap map: arrow keys read cells, plus and minus zoom, 0 shows all" }, canvas, readout);
  const { reset, tools } = zoomButtons(view, showAll);
  const name = element("h3");
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Classes: press one to see it alone" });
  const thumbs = element("div", { class: "thumbs", role: "group", "aria-label": "Policy shown" });
  const colouring = choice("Colour by", Object.entries(LAYERS).map(([key, { label }]) => [key, label]), layer, (chosen) => { layer = chosen; only = null; repaint(); });
  host.replaceChildren(thumbs, element("div", { class: "plot" },
    element("div", { class: "plot-head" }, name, colouring, tools), stage, element("div", { class: "bar" }, legend)));

  function showAll() {
    addresses = null;
    view.showAll();
  }

  function heapOf(chosen) {
    return chosen.map.rows * chosen.map.row_bytes;
  }

  function repaint() {
    const data = planes.get(policy.policy);
    if (!data) return;
    image = picture(policy.map, data, layer, only);
    name.textContent = `${policy.policy} fit`.replace("buddy fit", "buddies");
    canvas.setAttribute("aria-label", `Heap map under ${name.textContent}: ${bytes(policy.peak_heap)} of addresses against ${grouped(view.events)} events, coloured by ${LAYERS[layer].label}`);
    legend.replaceChildren(...LAYERS[layer].classes.map((label, at) =>
      element("button", { type: "button", "aria-pressed": String(only === null || only === at), onclick: () => { only = only === at ? null : at; repaint(); } },
        square(`${layer}-${at}`), label)));
    drawThumbs();
    draw();
  }

  function drawThumbs() {
    const buttons = policies.map((other) => {
      const small = element("canvas", { "aria-hidden": "true" });
      const button = element("button", {
        type: "button", "aria-pressed": String(other === policy),
        onclick: () => { policy = other; addresses = null; repaint(); thumbs.children[policies.indexOf(other)].focus(); },
      }, small, element("b", {}, other.policy), element("span", {}, bytes(other.peak_heap)));
      return [button, small, other];
    });
    thumbs.replaceChildren(...buttons.map(([button]) => button));
    for (const [, small, other] of buttons) drawThumb(small, other);
  }

  /** A small map; all have the same scale of addresses. */
  function drawThumb(small, other) {
    const { context, width, height: tall } = fit(small, 74);
    const high = Math.max(1, tall * (heapOf(other) / tallest));
    context.imageSmoothingQuality = "high";
    context.drawImage(picture(other.map, planes.get(other.policy), layer, only), 0, tall - high, width, high);
  }

  function draw() {
    if (!image) return;
    const { context, width, height: tall } = fit(canvas, stage.clientWidth < 500 ? Math.min(height, 320) : height);
    const [low, high] = addresses ?? [0, heapOf(policy)];
    const guides = byteTicks(low, high, 6);
    box = innerBox(context, guides.map(roundBytes), width, tall);
    place = { x: scale(view.from, view.to, box.left, box.right), y: scale(low, high, box.bottom, box.top) };
    const { row_bytes: rowBytes, column_events: columnEvents, rows } = policy.map;
    const [left, right] = [view.from / columnEvents, view.to / columnEvents];
    const [bottom, top] = [rows - low / rowBytes, rows - high / rowBytes];
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.clip();
    context.imageSmoothingEnabled = (box.right - box.left) * devicePixelRatio < 1.5 * (right - left);
    context.imageSmoothingQuality = "high";
    context.drawImage(image, left, top, right - left, bottom - top, box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.restore();
    context.strokeStyle = colour("rule");
    context.strokeRect(box.left + 0.5, box.top + 0.5, box.right - box.left - 1, box.bottom - box.top - 1);
    drawAxisX(context, box, place.x, ticks(view.from, view.to, width >= 640 ? 8 : 4), count);
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = colour("muted");
    for (const mark of guides) context.fillText(roundBytes(mark), box.left - 8, Math.min(box.bottom - 4, Math.max(box.top + 5, place.y(mark))));
    reset.hidden = view.isWhole && addresses === null;
  }

  function point(x, y) {
    readout.hidden = x === null || !image;
    if (readout.hidden) return;
    const { rows, columns, row_bytes: rowBytes, column_events: columnEvents } = policy.map;
    const column = Math.min(columns - 1, Math.floor(place.x.invert(x) / columnEvents));
    const row = Math.min(rows - 1, Math.max(0, Math.floor(place.y.invert(y) / rowBytes)));
    const data = planes.get(policy.policy);
    const shade = data[row * columns + column];
    const share = shade === 0 ? "nothing in use" : shade === 255 ? "all in use" : `${Math.round((100 * shade) / 255)} % in use`;
    const kind = data[rows * columns * (1 + policy.map.layers.indexOf(layer)) + row * columns + column];
    readout.replaceChildren(
      element("b", {}, share),
      ...(shade === 0 ? [] : [square(`${layer}-${kind}`), `mostly ${LAYERS[layer].classes[kind]}`, element("br")]),
      `${bytes(row * rowBytes)} – ${bytes((row + 1) * rowBytes)}`, element("br"),
      `events ${grouped(column * columnEvents)} – ${grouped(Math.min(view.events, (column + 1) * columnEvents))}`);
    placeReadout(readout, stage, x);
  }

  interact(stage, {
    boxed: true,
    box: () => box,
    point: (x, y) => point(x, y),
    select: (left, right, top, bottom) => {
      if (bottom - top >= 6) addresses = [place.y.invert(bottom), place.y.invert(top)];
      view.show(place.x.invert(left), place.x.invert(right));
    },
    key: (key) => {
      if (key === "0" || key === "Escape") addresses = null;
      return timeKey(view, key);
    },
  });
  view.onChange(draw);

  return Promise.all(policies.map(async (other) => planes.set(other.policy, await unpack(other.map)))).then(() => keepDrawn(repaint));
}
