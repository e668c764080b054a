"use strict";
(() => {
  const all = (query, within = document) => [...within.querySelectorAll(query)];

  // the reverse process: one slider moves the window over every model's frames
  const slider = document.getElementById("time");
  const play = document.getElementById("play");
  const reels = all(".reel");
  const show = () => {
    const share = slider.value / slider.max;
    for (const reel of reels) {
      const last = reel.dataset.frames - 1;
      const frame = Math.round(share * last);
      reel.dataset.frame = frame;
      reel.style.backgroundPositionX = last ? `${(100 * frame) / last}%` : "0%";
    }
  };
  if (slider) {
    let began = null;
    const stop = () => { began = null; play.textContent = "Play"; };
    const advance = (now) => {
      if (began === null) return;
      slider.value = Math.min(slider.max, (slider.max * (now - began)) / 5000);
      show();
      if (+slider.value >= +slider.max) stop(); else requestAnimationFrame(advance);
    };
    slider.addEventListener("input", () => { stop(); show(); });
    play.addEventListener("click", () => {
      if (began !== null) { stop(); return; }
      const from = +slider.value >= +slider.max ? 0 : slider.value / slider.max;
      began = performance.now() - from * 5000;
      play.textContent = "Stop";
      requestAnimationFrame(advance);
    });
    show();
  }

  // the legend hides and shows lines
  const curves = JSON.parse(document.getElementById("curves").textContent);
  const hidden = new Set();
  const classes = (k) => `.series.c${k % 8}.d${Math.floor(k / 8)}`;
  for (const button of all(".legend button")) {
    button.addEventListener("click", () => {
      const k = +button.dataset.series;
      const off = !hidden.has(k);
      off ? hidden.add(k) : hidden.delete(k);
      button.setAttribute("aria-pressed", String(!off));
      for (const line of all(classes(k))) line.classList.toggle("off", off);
    });
  }

  // pointing at a chart reads it
  const tip = document.getElementById("tip");
  const number = (value) => Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-3)
    ? value.toExponential(2) : String(+value.toPrecision(4));
  for (const figure of all("figure.chart")) {
    const svg = figure.querySelector("svg");
    const cross = svg.querySelector(".cross");
    const series = curves[figure.dataset.chart];
    const { left, right, low, high } = svg.dataset;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const unit = svg.viewBox.baseVal.width / box.width;
      const at = Math.min(1, Math.max(0, ((event.clientX - box.left) * unit - left) / (right - left)));
      const x = +low + at * (high - low);
      const rows = [];
      let shown = x;
      for (const [label, colour, xs, ys] of series) {
        if (hidden.has(colour)) continue;
        let best = 0;
        xs.forEach((value, k) => { if (Math.abs(value - x) < Math.abs(xs[best] - x)) best = k; });
        if (ys[best] !== null) { rows.push([label, colour, ys[best]]); shown = xs[best]; }
      }
      if (!rows.length) { tip.hidden = true; return; }
      const place = +left + ((shown - low) / (high - low)) * (right - left);
      cross.setAttribute("x1", place);
      cross.setAttribute("x2", place);
      cross.style.visibility = "visible";
      const head = document.createElement("div");
      head.textContent = number(shown);
      const lines = rows.map(([label, colour, value]) => {
        const line = document.createElement("div");
        const name = document.createElement("span");
        name.className = `c${colour % 8}`;
        name.textContent = label;
        const said = document.createElement("span");
        said.textContent = number(value);
        line.append(name, said);
        return line;
      });
      tip.replaceChildren(head, ...lines);
      tip.hidden = false;
      const wide = tip.offsetWidth;
      tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - wide - 8)}px`;
      tip.style.top = `${event.clientY + 16}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; cross.style.visibility = "hidden"; });
  }
})();
