// Maps of a heap: addresses upwards, time to the right, and what lay there.

/** The ways to colour a map, each with its classes: what they are called and painted with. */
function colourings({ sites }) {
  const numbered = (layer, names) => names.map((name, at) => ({ name, paint: `${layer}-${at}` }));
  const found = new Map([
    ["size", numbered("size", ["≤ 16 B", "≤ 64 B", "≤ 256 B", "≤ 1 KiB", "≤ 4 KiB", "≤ 16 KiB", "≤ 64 KiB", "> 64 KiB"])],
    ["age", numbered("age", ["first eighth", "second", "third", "fourth", "fifth", "sixth", "seventh", "last eighth"])],
  ]);
  if (sites === null) return found;
  // Where the sites of some blocks are known, the shares are those of the known ones.
  const mean = [...sites.rows, sites.others].reduce((sum, held) => sum + held.mean_bytes, 0) || 1;
  const note = (held) => `${percent(held.mean_bytes / mean)} of the bytes: on average ${bytes(held.mean_bytes)} in use, ${plural(held.blocks, "block")} in all`;
  const told = numbered("site", sites.rows.map((held) => held.name));
  const rest = [{ name: "all others", paint: "site-other", held: sites.others, note: note(sites.others) }, { name: "not known", paint: "site-unknown", held: sites.unknown }];
  return found.set("site", [...told.map((site, at) => ({ ...site, note: note(sites.rows[at]) })), ...rest.map((kind) => ({ ...kind, isAbsent: kind.held.blocks === 0 }))]);
}

/** Unpacks the planes of a map. */
async function unpack(map) {
  const packed = Uint8Array.from(atob(map.planes), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A picture of a map: its pixels, one per cell, the lowest addresses at the bottom; `only` is the one class to show, or null. */
function picture(map, planes, layer, kinds, only) {
  const { rows, columns } = map;
  const plane = rows * columns;
  const classes = planes.subarray(plane * (1 + map.layers.indexOf(layer)));
  const paints = kinds.map(({ paint }) => channels(colour(paint)));
  const image = new ImageData(columns, rows);
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
  return image;
}

/** Returns a canvas `width` columns wide, each the mean of the picture's columns between two places on the axis. */
function stretched(image, map, view, [from, to], width) {
  const { width: columns, height: rows, data } = image;
  const column = (at) => view.event(from + ((to - from) * at) / width) / map.column_events;
  const spans = Array.from({ length: width }, (_, at) => {
    const first = Math.min(columns - 1, Math.floor(column(at) + 1e-6));
    return [first, Math.min(columns, Math.max(first + 1, Math.floor(column(at + 1) + 1e-6)))];
  });
  const made = new ImageData(width, rows);
  for (let row = 0; row < rows; row += 1) {
    spans.forEach(([first, end], at) => {
      const to = 4 * (row * width + at);
      let [red, green, blue, alpha] = [0, 0, 0, 0];
      for (let from = 4 * (row * columns + first); from < 4 * (row * columns + end); from += 4) {
        const weight = data[from + 3];
        red += data[from] * weight;
        green += data[from + 1] * weight;
        blue += data[from + 2] * weight;
        alpha += weight;
      }
      if (alpha === 0) return;
      made.data[to] = red / alpha;
      made.data[to + 1] = green / alpha;
      made.data[to + 2] = blue / alpha;
      made.data[to + 3] = alpha / (end - first);
    });
  }
  const canvas = element("canvas", { width, height: rows });
  canvas.getContext("2d").putImageData(made, 0, 0);
  return canvas;
}

/** The map of one policy at a time, and small ones of all to choose from. */
function heapMap(host, { policies, view, height, layers }) {
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
  const readout = element("div", { class: "readout", "aria-live": "polite" }, HINT);
  const stage = element("div", { class: "stage", tabindex: 0, "aria-label": "Heap map: arrow keys read cells, plus and minus zoom, 0 shows all" }, canvas);
  const { reset, tools } = zoomButtons(view, showAll);
  const name = element("h3");
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Classes: press one to see it alone" });
  const cell = element("p", { class: "cell" });
  const thumbs = element("div", { class: "thumbs", role: "group", "aria-label": "Policy shown" });
  const colouring = choice("Colour by", [...layers.keys()].map((key) => [key, key]), layer, (chosen) => { layer = chosen; only = null; repaint(); });
  host.replaceChildren(thumbs, element("div", { class: "plot" },
    element("div", { class: "plot-head" }, name, colouring, ...axisChoice(view), tools), stage, readout, element("div", { class: "bar" }, legend), cell));

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
    const kinds = layers.get(layer);
    image = picture(policy.map, data, layer, kinds, only);
    name.textContent = `${policy.policy} fit`.replace("buddy fit", "buddies");
    canvas.setAttribute("aria-label", `Heap map under ${name.textContent}: ${bytes(policy.peak_heap)} of addresses against ${grouped(view.events)} events, coloured by ${layer}`);
    cell.textContent = `A cell: ${plural(policy.map.column_events, "event")}, ${bytes(policy.map.row_bytes)} of addresses.`;
    legend.replaceChildren(...kinds.flatMap((kind, at) => kind.isAbsent ? [] :
      element("button", { type: "button", title: kind.note && `${kind.name}: ${kind.note}`, "aria-pressed": String(only === null || only === at), onclick: () => { only = only === at ? null : at; repaint(); } },
        square(kind.paint), element("span", {}, kind.name), ...(kind.note ? [element("small", {}, kind.note.split(" of ")[0])] : []))));
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
    const image = picture(other.map, planes.get(other.policy), layer, layers.get(layer), only);
    const whole = [view.at(0), view.at(view.events)];
    context.drawImage(stretched(image, other.map, view, whole, small.width), 0, tall - high, width, high);
  }

  function draw() {
    if (!image) return;
    const { context, width, height: tall } = fit(canvas, stage.clientWidth < 500 ? Math.min(height, 320) : height);
    const [low, high] = addresses ?? [0, heapOf(policy)];
    const guides = byteTicks(low, high, CHART.marks.upwards);
    box = innerBox(context, guides.map(roundBytes), width, tall);
    drawAxisTitles(context, box, view.title, "address, from the heap's start");
    place = { x: scale(view.from, view.to, box.left, box.right), y: scale(low, high, box.bottom, box.top) };
    const { row_bytes: rowBytes, rows } = policy.map;
    const [bottom, top] = [rows - low / rowBytes, rows - high / rowBytes];
    const shown = stretched(image, policy.map, view, [view.from, view.to], Math.round((box.right - box.left) * (devicePixelRatio || 1)));
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.clip();
    // Cells that are larger than a pixel have sharp edges.
    context.imageSmoothingEnabled = (box.bottom - box.top) * devicePixelRatio < 1.5 * (bottom - top);
    context.imageSmoothingQuality = "high";
    context.drawImage(shown, 0, top, shown.width, bottom - top, box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.restore();
    context.strokeStyle = colour("rule");
    context.strokeRect(box.left + 0.5, box.top + 0.5, box.right - box.left - 1, box.bottom - box.top - 1);
    drawAxisX(context, box, place.x, view.marks(width >= 640 ? CHART.marks.across : CHART.marks.across_narrow));
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = colour("muted");
    for (const mark of guides) context.fillText(roundBytes(mark), box.left - 8, Math.min(box.bottom - 4, Math.max(box.top + 5, place.y(mark))));
    reset.hidden = view.isWhole && addresses === null;
  }

  function point(x, y) {
    if (x === null || !image) {
      readout.replaceChildren(HINT);
      return;
    }
    const { rows, columns, row_bytes: rowBytes, column_events: columnEvents } = policy.map;
    const column = Math.min(columns - 1, Math.floor(view.event(place.x.invert(x)) / columnEvents));
    const row = Math.min(rows - 1, Math.max(0, Math.floor(place.y.invert(y) / rowBytes)));
    const data = planes.get(policy.policy);
    const shade = data[row * columns + column];
    const share = shade === 0 ? "nothing in use" : shade === 255 ? "all in use" : `${Math.round((100 * shade) / 255)} % in use`;
    const kind = layers.get(layer)[data[rows * columns * (1 + policy.map.layers.indexOf(layer)) + row * columns + column]];
    readout.replaceChildren(
      element("b", {}, share),
      ...(shade === 0 ? [] : [element("span", {}, square(kind.paint), `mostly ${layer === "site" ? "by " : ""}${kind.name}`)]),
      element("span", {}, `${bytes(row * rowBytes)} – ${bytes((row + 1) * rowBytes)}`),
      element("span", {}, `${view.say(column * columnEvents)} – ${view.say(Math.min(view.events, (column + 1) * columnEvents))}`));
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
  let axis = view.axis;
  view.onChange(() => {
    if (axis !== view.axis) drawThumbs();
    axis = view.axis;
    draw();
  });

  return Promise.all(policies.map(async (other) => planes.set(other.policy, await unpack(other.map)))).then(() => keepDrawn(repaint));
}
