// Uses a report as a person would, and tells the page around it what it saw.
"use strict";
{
  const seen = { errors: [], violations: [] };
  addEventListener("error", (event) => seen.errors.push(String(event.message)));
  addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
  addEventListener("securitypolicyviolation", (event) => seen.violations.push(event.violatedDirective));

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const texts = (selector, within) => all(selector, within).map((found) => found.textContent);
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));

  /** How many different colours a canvas shows. */
  function colours(canvas) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let at = 0; at < data.length; at += 4) found.add(data.slice(at, at + 4).join());
    return found.size;
  }

  function look() {
    seen.verdict = document.getElementById("verdict").textContent;
    seen.title = document.querySelector("h1").textContent;
    seen.injected = all("main b, main i").map((found) => found.textContent).filter((text) => text.includes("torn"));
    seen.width = document.documentElement.scrollWidth;
    seen.window = innerWidth;
    seen.canvases = all("canvas").map(colours);
    seen.bars = all(".panel svg").map((picture) => all("rect", picture).length);

    const table = document.querySelector("#comparison table");
    const heads = all("thead button", table);
    const order = () => texts("tbody tr > :first-child", table);
    heads[1].click();
    const ascending = order();
    heads[1].click();
    seen.orders = [ascending, order()];
    seen.sorted = all("[aria-sort]", table).map((head) => head.getAttribute("aria-sort"));

    const [stage] = all("#plot-heap .stage");
    const reset = document.querySelector("#plot-heap .tools button");
    const canvas = stage.querySelector("canvas");
    const whole = canvas.toDataURL();
    press(stage, "+");
    seen.zoomed = [!reset.hidden, canvas.toDataURL() !== whole];
    press(stage, "0");
    seen.back = [reset.hidden, canvas.toDataURL() === whole];
    press(stage, "ArrowRight");
    seen.readout = document.querySelector("#plot-heap .readout").textContent;
    stage.dispatchEvent(new Event("blur"));
    document.querySelector("#plot-heap .legend button").click();
    seen.toggled = canvas.toDataURL() !== whole;

    seen.parts = all(".parts-row").map((row) => row.getAttribute("aria-label"));
    seen.partWidths = all(".parts-row").map((row) => all("i", row).map((part) => Math.round(parseFloat(part.style.width))));
    seen.nextStep = texts("#next-step:not([hidden]) code");
    seen.badges = texts(".badge:not([hidden])");

    const map = document.querySelector("#heap-map .stage canvas");
    const axes = ["#time-axis", "#heap-map .plot-head"].map((place) => all(`${place} [aria-label=Against] button`));
    const pictures = () => [canvas, map].map((drawn) => drawn?.toDataURL());
    const againstEvents = pictures();
    axes[1][1]?.click();
    seen.axes = axes.map((buttons) => buttons.map((button) => button.getAttribute("aria-pressed")));
    seen.timed = pictures().map((picture, at) => picture !== againstEvents[at]);
    // Half of the time is behind nine tenths of the events.
    const { left, width } = canvas.getBoundingClientRect();
    stage.dispatchEvent(new PointerEvent("pointermove", { clientX: left + width / 2, clientY: 0, bubbles: true }));
    seen.timedReadout = document.querySelector("#plot-heap .readout").textContent;
    stage.dispatchEvent(new Event("blur"));
    axes[0][0]?.click();
    seen.untimed = pictures().map((picture, at) => picture === againstEvents[at]);
    const ways = all('#heap-map [aria-label="Colour by"] button');
    seen.colourings = ways.map((way) => way.textContent);
    const first = map?.toDataURL();
    seen.recoloured = ways.slice(1).map((way) => {
      way.click();
      return map.toDataURL() !== first;
    });
    seen.sites = texts("#heap-map .legend span");
    seen.fallback = texts("#heap-map .failure");

    const parts = () => all("#held .flame").map((part) => [part.textContent, Math.round(parseFloat(part.style.width))]);
    const functions = () => texts("#held table[aria-label='By function'] tbody > tr > :first-child");
    const pressed = (label, at) => all(`#held [aria-label="${label}"] button`)[at].click();
    seen.flames = parts();
    pressed("From", 1);
    seen.fromInside = parts();
    all("#held .flame").at(-1).click();
    seen.zoomedFlames = parts().filter(([, width]) => width === 100).length;
    document.querySelector("#held button.quiet").click();
    seen.allFlames = parts().length;
    pressed("From", 0);
    const moment = () => document.querySelector("#held .moment").textContent;
    seen.moments = [moment()];
    const asked = document.querySelector("#plot-asked .stage");
    const bounds = asked.querySelector("canvas").getBoundingClientRect();
    const click = (target, share) => target.dispatchEvent(new MouseEvent("click", { clientX: bounds.left + share * bounds.width, clientY: bounds.top + 9, bubbles: true }));
    click(asked, 0);
    seen.moments.push(moment());
    seen.firstFlames = parts();
    click(stage, 1);
    seen.moments.push(moment());
    all('#held [aria-label="Moment"] button')[2].click();
    seen.peakFlames = parts();
    pressed("From", 1);
    const search = document.querySelector("#held input");
    search.value = "OTHER";
    search.dispatchEvent(new Event("input"));
    seen.found = [texts("#held .found"), document.querySelector("#held .docked").textContent];
    seen.byMeasure = [functions(), (pressed("Measure", 1), functions()), parts().map(([name]) => name)];
    seen.moments.push(moment());
    seen.drawnFlames = all("#held .flame").every((part) => part.getBoundingClientRect().width > 0);

    const paper = () => getComputedStyle(document.body).backgroundColor;
    seen.papers = [paper()];
    document.getElementById("theme").click();
    seen.papers.push(paper());
    seen.unnamed = all("button, canvas[role], svg[role], table").filter((found) => !(found.getAttribute("aria-label") || found.textContent.trim())).length;
  }

  function wait() {
    if (document.documentElement.dataset.ready === undefined) {
      setTimeout(wait, 50);
      return;
    }
    try {
      look();
    } catch (error) {
      seen.errors.push(String(error));
    }
    const bytes = new TextEncoder().encode(JSON.stringify(seen));
    parent.postMessage(btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")), "*");
  }
  wait();
}
