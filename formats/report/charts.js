'use strict';
/* Replaces the pictures of charts by charts that react: dygraphs (which the page holds before this
 * script) draws them. A chart's numbers stand beside its picture as JSON: {"log", "x", "series":
 * [{"name", "run", "faint", "smooth", "x": [], "y": [], "n": []}]}; other units of x as {"unit",
 * "run", "x": [], "value": []}, for each run (html_chart.c). All charts have one unit of x, one
 * range of x and one pointer. */
(() => {
  const SHARES = [0, .005, .01, .02, .04, .08, .16];       // of a curve on each side of a point
  const json = e => JSON.parse(e.textContent);
  const units = new Map();                                 // unit -> [run] -> {x, value}
  const readUnits = page => {
    for (const e of page.querySelectorAll('script.unit')) {
      const u = json(e);
      if (!units.has(u.unit)) units.set(u.unit, []);
      units.get(u.unit)[u.run] = u;
    }
  };
  readUnits(document);

  const state = { unit: chosen.get('unit', ''), share: chosen.get('share', 3),
                  range: chosen.get('range', null) };
  if (!units.has(state.unit)) state.unit = '';
  const charts = [];

  /* ---- numbers ---- */

  /* The last index whose value is at most v, at least 0; a ascends. */
  function below(a, v) {
    let low = 0, high = a.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (a[mid] <= v) low = mid; else high = mid - 1;
    }
    return low;
  }

  function nearest(a, v) {
    const i = below(a, v);
    return i + 1 < a.length && a[i + 1] - v < v - a[i] ? i + 1 : i;
  }

  /* Steps of a run in the chosen unit. */
  function inUnit(xs, run) {
    const map = state.unit && units.get(state.unit)[run];
    if (!map || !map.x.length) return xs;
    return xs.map(x => {
      const i = Math.min(below(map.x, x), Math.max(0, map.x.length - 2));
      if (map.x.length < 2 || map.x[i + 1] === map.x[i]) return map.value[i];
      return map.value[i] + (x - map.x[i]) / (map.x[i + 1] - map.x[i]) *
        (map.value[i + 1] - map.value[i]);
    });
  }

  /* The mean over a share of the curve around each point, weighted by the values in a point. */
  function smoothed(s) {
    const n = s.y.length, half = Math.ceil(SHARES[state.share] * n);
    const sum = [0], weight = [0];
    for (let i = 0; i < n; i++) {
      const w = s.n ? s.n[i] : 1;
      sum.push(sum[i] + s.y[i] * w);
      weight.push(weight[i] + w);
    }
    return s.y.map((_, i) => {
      const from = Math.max(0, i - half), to = Math.min(n, i + half + 1);
      return (sum[to] - sum[from]) / (weight[to] - weight[from]);
    });
  }

  const short = v => {
    const a = Math.abs(v);
    if (v === 0) return '0';
    if (a >= 1e6 || a < 1e-3) return v.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
    return String(+v.toPrecision(4));
  };

  function xText(v) {
    if (state.unit !== 'hours') return short(v);
    const s = Math.round(v * 3600);
    return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` :
      `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  }

  /* The range of x that all charts show: the chosen one, or all points of all charts. */
  function whole() {
    let low = Infinity, high = -Infinity;
    for (const c of charts)
      for (const { x } of c.lines)
        if (x.length) { low = Math.min(low, x[0]); high = Math.max(high, x[x.length - 1]); }
    const edge = low < high ? (high - low) / 64 : 1;
    return [low - edge, high + edge];
  }
  const shown = () => state.range || (charts.length && whole()) || null;

  /* ---- a chart ---- */

  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = i => style(`--c${i % 8}`), pale = i => color(i) + '59';

  /* Rows of dygraphs: all x of all series, with null where a series has no point. */
  const linesOf = c => c.data.series.map(s => ({
    x: inUnit(s.x, s.run), y: s.smooth ? smoothed(s) : s.y }));

  function rows(c) {
    const at = new Map();
    c.lines = linesOf(c);
    c.lines.forEach((line, k) => line.x.forEach((x, i) => {
      const y = line.y[i];
      if (y === null || (c.log && !(y > 0))) return;
      const list = at.get(x);
      if (!list) at.set(x, [[k, y]]); else list.push([k, y]);
    }));
    const out = [];
    for (const x of [...at.keys()].sort((a, b) => a - b)) {
      let row = [x, ...c.lines.map(() => null)];
      out.push(row);
      /* a faint line has the least and the greatest value of a range of steps at one x */
      for (const [k, y] of at.get(x)) {
        if (row[k + 1] !== null) out.push(row = [x, ...c.lines.map(() => null)]);
        row[k + 1] = y;
      }
    }
    return out.length ? out : [[0, ...c.lines.map(() => null)]];
  }

  function seriesOptions(c) {
    return Object.fromEntries(c.data.series.map((s, i) => [c.labels[i + 1], {
      color: s.faint ? pale(i) : color(i), strokeWidth: s.faint ? 1 : 1.8,
      drawPoints: s.x.length < 40, pointSize: 2, highlightCircleSize: 3 }]));
  }

  function labelX(c) {
    c.axes.textContent = `${c.data.y ? c.data.y + ' by ' : 'by '}${state.unit || c.data.x}`;
  }

  function redraw(c) {
    labelX(c);
    c.graph?.updateOptions({ file: c.file, series: seriesOptions(c), logscale: c.log,
      dateWindow: shown(), valueRange: null, gridLineColor: style('--line') });
  }

  /* Shows the values at x in every chart, and a line there. */
  function point(x, aloud) {
    for (const c of charts) {
      const shown = x !== null;
      if (c.mark) c.mark.hidden = !shown;
      if (shown && c.graph) c.mark.style.left = c.graph.toDomXCoord(x) + 'px';
      const words = [];
      c.lines.forEach((line, i) => {
        const k = shown && line.x.length ? nearest(line.x, x) : -1;
        c.values[i].value = k < 0 ? '' : short(line.y[k]);
        if (k >= 0) words.push(`${c.data.series[i].name} ${short(line.y[k])}`);
      });
      c.where.value = shown ? `${state.unit || c.data.x} ${xText(x)}` : '';
      if (aloud === c) c.spoken.value = `${c.where.value}: ${words.join(', ')}`;
    }
    state.pointer = x;
  }

  function zoom(range) {
    const all = whole();
    state.range = range && (range[0] > all[0] || range[1] < all[1]) ? range : null;
    chosen.set('range', state.range);
    for (const c of charts) c.graph?.updateOptions({ dateWindow: shown(), valueRange: null });
    reset.disabled = !state.range;
    if (state.pointer !== null && state.pointer !== undefined) point(state.pointer);
  }

  /* Arrows move the pointer over the points of the first line, + and - zoom, 0 shows all. */
  function onKey(c, e) {
    const line = c.lines.reduce((a, b) => b.x.length > a.x.length ? b : a), n = line.x.length;
    const [low, high] = c.graph.xAxisRange();
    const at = state.pointer ?? (low + high) / 2;
    const move = { ArrowLeft: -1, ArrowRight: 1, PageDown: Math.ceil(n / 10),
                   PageUp: -Math.ceil(n / 10) }[e.key];
    const factor = { '+': .5, '=': .5, '-': 2 }[e.key];
    if (move && n) point(line.x[Math.min(n - 1, Math.max(0, nearest(line.x, at) + move))], c);
    else if (factor) {
      const all = whole(), half = (high - low) * factor / 2;
      zoom([Math.max(all[0], at - half), Math.min(all[1], at + half)]);
    } else if (e.key === '0' || e.key === 'Escape') zoom(null);
    else return;
    e.preventDefault();
  }

  /* Enables the boxes of the page's legend, in the order of the lines. */
  function legend(c) {
    const box = c.figure.querySelector('.legend'), labels = [...box.querySelectorAll('label')];
    const log = labels.pop().querySelector('input');
    c.values = labels.map(l => l.querySelector('output'));
    c.where = box.querySelector('.where');
    c.spoken = box.querySelector('.spoken');
    labels.forEach((label, i) => {
      const check = label.querySelector('input'), name = `hide ${c.index} ${c.data.series[i].name}`;
      Object.assign(check, { checked: !chosen.get(name, false), disabled: false, onchange: () => {
        chosen.set(name, !check.checked);
        c.graph?.setVisibility(i, check.checked);
      } });
    });
    Object.assign(log, { checked: c.log, disabled: false, onchange: () => {
      c.log = log.checked;
      chosen.set(`log ${c.index}`, c.log);
      if (!c.graph) return;
      c.file = rows(c);
      redraw(c);
    } });
  }

  const titleOf = figure => figure.querySelector('figcaption').firstChild.textContent;

  /* Reads a chart's numbers; its picture stays until it is drawn. */
  function prepare(figure, index) {
    const c = { index, figure, data: json(figure.querySelector('script')) };
    c.title = titleOf(figure);
    c.log = chosen.get(`log ${index}`, c.data.log);
    /* dygraphs finds a series by its label, so that equal names need a difference */
    c.labels = ['x', ...c.data.series.map((s, i) => `${i} ${s.name}`)];
    c.axes = figure.querySelector('.axes');
    labelX(c);
    legend(c);
    c.lines = linesOf(c);
    return c;
  }

  function draw(c) {
    const box = el('div', { className: 'chart live', tabIndex: 0, role: 'application',
      'aria-label': `${c.title}: a chart. Arrow keys move the pointer, plus and minus zoom, ` +
        '0 shows all.' });
    c.figure.querySelector('.chart').replaceWith(box);
    const touch = Dygraph.defaultInteractionModel;
    const fingers = name => (e, g, context) => {             // one finger scrolls the page
      if (e.touches.length > 1 || context.initialTouches?.length > 1) touch[name](e, g, context);
    };
    c.graph = new Dygraph(box, rows(c), {
      labels: c.labels, legend: 'never', connectSeparatedPoints: true, logscale: c.log,
      series: seriesOptions(c), dateWindow: shown(), gridLineColor: style('--line'),
      axisLineColor: 'transparent', yRangePad: 8, animatedZooms: false,
      visibility: c.data.series.map(s => !chosen.get(`hide ${c.index} ${s.name}`, false)),
      axes: { x: { axisLabelFormatter: xText, axisLabelWidth: 56, pixelsPerLabel: 50 },
              y: { axisLabelFormatter: short, axisLabelWidth: 56 } },
      interactionModel: { ...touch, touchstart: fingers('touchstart'),
        touchmove: fingers('touchmove'), touchend: fingers('touchend') },
      highlightCallback: (e, x) => point(x),
      unhighlightCallback: () => point(null),
      zoomCallback: (low, high) => zoom([low, high]),
    });
    c.mark = el('div', { className: 'pointer', hidden: true });
    box.append(c.mark);
    box.addEventListener('keydown', e => onKey(c, e));
    box.addEventListener('blur', () => point(null));
  }

  /* ---- all charts ---- */

  const figures = [...document.querySelectorAll('figure.lines')];
  const controls = document.querySelector('.controls.charts');
  const reset = controls.querySelector('button'), unit = controls.querySelector('select');
  const share = controls.querySelector('input'), amount = controls.querySelector('output');
  const redrawAll = () => {
    for (const c of charts) if (c.graph) c.file = rows(c); else c.lines = linesOf(c);
    for (const c of charts) redraw(c);
  };
  unit.replaceChildren(el('option', { value: '' }, 'step'),
    ...[...units.keys()].map(u => el('option', { value: u }, u)));
  Object.assign(unit, { value: state.unit, disabled: !units.size, onchange: () => {
    state.unit = unit.value;
    chosen.set('unit', state.unit);
    state.pointer = null;
    state.range = null;
    redrawAll();
    zoom(null);
  } });
  Object.assign(share, { min: 0, max: SHARES.length - 1, step: 1, value: state.share,
    oninput: () => {
      state.share = +share.value;
      chosen.set('share', state.share);
      nameShare();
      redrawAll();
    } });
  const nameShare = () => {
    amount.value = state.share ? `over ${+(200 * SHARES[state.share]).toPrecision(2)} %` : 'none';
  };
  nameShare();

  /* The first charts are drawn at once, the others one by one while the page can be used: drawing
   * takes most of the time in which a page opens. */
  charts.push(...figures.map(prepare));                    // now all ranges are known
  const waiting = [...charts], AT_ONCE = 2;
  for (const c of waiting.splice(0, AT_ONCE)) draw(c);
  const drawNext = () => {
    if (waiting.length) draw(waiting.shift());
    if (waiting.length) setTimeout(drawNext);
  };
  setTimeout(drawNext);
  reset.disabled = !state.range;
  reset.onclick = () => zoom(null);
  share.disabled = !charts.some(c => c.data.series.some(s => s.smooth));
  /* The numbers of the newer page replace those of the same charts and lines. */
  renewals.push(page => {
    const name = s => `${s.run} ${s.name}`, names = data => data.series.map(name).sort().join('\n');
    const newer = [...page.querySelectorAll('figure.lines')];
    const data = newer.map(f => json(f.querySelector('script')));
    const same = newer.length === charts.length && charts.every((c, i) =>
      titleOf(newer[i]) === c.title && names(data[i]) === names(c.data));
    if (!same) return false;
    readUnits(page);
    charts.forEach((c, i) => {                             // lines keep their order and colours
      const series = c.data.series.map(s => data[i].series.find(n => name(n) === name(s)));
      c.data = { ...data[i], series };
    });
    redrawAll();
    if (state.pointer !== null && state.pointer !== undefined) point(state.pointer);
    return true;
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
})();
