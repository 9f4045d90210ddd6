const base = location.href.replace(/[?#].*/, '').replace(/\.html?$/i, '') + '.data/';
const KEPT = 80;                     // files of samples that stay in memory
const sets = [];                     // the datasets of the page
const waiting = new Map(), kept = new Map();

/* A file of data calls this with its name. */
window.vlt = (name, value) => waiting.get(name)(value);

function load(name) {
  return new Promise((done, fail) => {
    const script = el('script', { src: base + name + '.js' });
    const end = result => value => { waiting.delete(name); script.remove(); result(value); };
    waiting.set(name, end(done));
    script.onerror = () => end(fail)(new Error('The file ' + name + '.js is missing in ' +
      decodeURI(base.replace(/.*\/(?=[^/]+\/$)/, '')) + ', or cannot be read.'));
    document.head.append(script);
  });
}

/* Samples, and the latents of their sounds (kind a), come in files of a fixed number; those used
 * last stay in memory. */
function samples(set, file, kind = 'c') {
  const name = `${set.n}/${kind}${Math.floor(file / 1000)}/${file}`;
  const value = kept.get(name) || load(name);
  kept.delete(name);
  kept.set(name, value);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return value;
}

async function sample(set, at) {
  const file = await samples(set, Math.floor(at / set.info.chunk)), i = at % set.info.chunk;
  return { record: file.r[i], jpeg: file.t[i], sound: file.a ? file.a[i] : 0 };
}

const count = n => n.toLocaleString('en');
const text = v => typeof v === 'string' ? v : JSON.stringify(v);
const key = r => String(r.sample).padStart(12, '0') + '/' + String(r.variant || 0).padStart(3, '0');
const frames = r => r.frames ? r.frames.length : 1;
const size = r => r.target ? `${r.target[1]}×${r.target[0]}` : '';
const captions = r => (r.captions || []).map(c => String(c.text));

const fileName = r => String(r.path || '').replace(/.*[\\/](?=.)/, '');

function picture(jpeg, alt) {
  return jpeg ? el('img', { src: 'data:image/jpeg;base64,' + jpeg, alt, loading: 'lazy' })
              : el('span', { className: 'none' }, 'no thumbnail');
}

/* ---- one dataset ---- */

/* Orders of samples, by numbers that the file `keys` has; '': as they lie, by bucket. */
const ORDERS = {
  '': { name: 'Bucket' }, number: { name: 'Number', of: k => k.number },
  longest: { name: 'Longest first', of: k => k.frames, falls: true },
  shortest: { name: 'Shortest first', of: k => k.frames },
  largest: { name: 'Largest first', of: k => k.width.map((w, i) => w * k.height[i]), falls: true },
  smallest: { name: 'Smallest first', of: k => k.width.map((w, i) => w * k.height[i]) },
  tokens: { name: 'Most tokens first', of: k => k.tokens, falls: true },
};

function keysOf(set) {
  set.keys ||= load(`${set.n}/keys`);
  return set.keys;
}

/* Returns the positions of a dataset's samples to show: a range, or a list after a search or in an
 * order. */
function shown(set) {
  const b = set.info.buckets[set.bucket], from = b ? b.from : 0, n = b ? b.n : set.info.samples;
  const list = set.sorted || set.found;
  const found = list && (b ? list.filter(i => i >= from && i < from + n) : list);
  return found ? { n: found.length, at: i => found[i] } : { n, at: i => from + i };
}

/* Sorts the samples that a search found, or all; equal ones stay as they lie. */
async function sort(set) {
  const order = ORDERS[set.order.value];
  set.sorted = null;
  if (!order.of) return;
  const keys = order.of(await keysOf(set)), sign = order.falls ? -1 : 1;
  const list = set.found ? [...set.found] : keys.map((_, i) => i);
  set.sorted = list.sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
}

function card(set, at, s) {
  const r = s.record;
  const title = `${r.sample}/${r.variant || 0}  ${size(r)}, ${frames(r)} frame` +
    (frames(r) === 1 ? '' : 's') + (s.sound ? ', sound' : '');
  const words = el('span', { className: 'text' });
  const target = el('span', { className: 'target' }, picture(s.jpeg, ''));
  const e = el('button', { className: 'card', type: 'button', onclick: () => open(set, at) },
    el('span', { className: 'pictures' }, target, ...cardInputs(set, r)),
    el('strong', {}, fileName(r)),
    el('span', { className: 'facts' }, title), words);
  const mark = () => {
    const m = set.marks.of(r);
    e.classList.toggle('out', !!m.exclude);
    e.classList.toggle('other', !!m.captions);
    words.textContent = (m.captions || captions(r))[0] || '(no caption)';
  };
  e.mark = mark;
  e.addEventListener('keydown', k => {
    if (k.key === 'x') set.marks.set(r, { exclude: !set.marks.of(r).exclude });
  });
  mark();
  playOver(set, r, e, target);
  return e;
}

/* ---- two datasets ---- */

const pairing = document.querySelector('#pair input');

/* Finds for each position of a dataset the sample of the other one that is of the same source and
 * has most frames of it in common; -1: there is none. */
async function findTwins(set) {
  const [own, other] = await Promise.all([keysOf(set), keysOf(set.other)]);
  const of = new Map();
  other.source.forEach((s, i) => { if (of.has(s)) of.get(s).push(i); else of.set(s, [i]); });
  const common = (i, k) => Math.min(own.to[i], other.to[k]) - Math.max(own.from[i], other.from[k]);
  return own.source.map((s, i) => (of.get(s) || []).reduce(
    (best, k) => common(i, k) >= 0 && (best < 0 || common(i, k) > common(i, best)) ? k : best, -1));
}

/* The sample of the other dataset that stands beside a sample, or -1. */
async function twinOf(set, at) {
  if (!pairing.checked || !set.other) return -1;
  set.twins ||= findTwins(set);
  return (await set.twins)[at];
}

/* A sample's card, with its twin's while sources stand side by side. */
async function cardsOf(set, at) {
  const own = card(set, at, await sample(set, at));
  if (!pairing.checked || !set.other) return own;
  const twin = await twinOf(set, at), name = set.other.info.name;
  const half = (of, e) => el('div', {}, of, e);
  return el('div', { className: 'twins', role: 'group',
    'aria-label': 'One source in two datasets' }, half(set.info.name, own), twin < 0
    ? el('p', {}, `Not in ${name}`)
    : half(name, card(set.other, twin, await sample(set.other, twin))));
}

/* One list of pairs takes the place of the second dataset's list, and the other way round. */
function layOut() {
  for (const set of sets.slice(1)) set.section.hidden = pairing.checked;
  document.querySelector('#sets').classList.toggle('two', sets.length > 1 && !pairing.checked);
  const inputs = sets.some(s => s.info.inputs);   // cards are wider then, in twins too
  for (const set of sets) {
    set.cards.classList.toggle('pairs', pairing.checked);
    set.cards.classList.toggle('wide', inputs);
  }
}

/* What stands where a card comes, as large as it. */
function place(set) {
  const card = () => el('div', { className: 'card' });
  if (!pairing.checked || !set.other) return card();
  return el('div', { className: 'twins' },
    ...[set, set.other].map(s => el('div', {}, s.info.name, card())));
}

/* Shows a page of a dataset's samples. The list has its size before the first sample is loaded. */
async function show(set) {
  if (set.section.hidden) {                      // its samples stand beside those of the first
    set.cards.replaceChildren();
    return;
  }
  const list = shown(set), pages = Math.max(1, Math.ceil(list.n / set.info.chunk));
  const run = set.run = {};
  set.page = Math.min(Math.max(set.page, 0), pages - 1);
  set.input.value = set.page + 1;
  set.input.max = pages;
  set.pages.value = `of ${count(pages)}, ${count(list.n)} samples`;
  set.before.disabled = set.page === 0;
  set.after.disabled = set.page === pages - 1;
  remember();
  const cards = [];
  try {
    const from = set.page * set.info.chunk, to = Math.min(list.n, from + set.info.chunk);
    set.cards.setAttribute('aria-busy', true);
    if (!set.cards.children.length)
      set.cards.append(...Array.from({ length: to - from }, () => place(set)));
    for (let i = from; i < to; i++) cards.push(await cardsOf(set, list.at(i)));
  } catch (e) {
    cards.push(el('p', {}, e.message));
  }
  if (set.run !== run) return;
  set.cards.replaceChildren(...cards);
  set.cards.removeAttribute('aria-busy');
}

function go(set, page) {
  set.page = page;
  return show(set);
}

async function skipped(set, box) {
  const rows = [], table = el('table', {}, el('tr', {},
    ...['row', 'path', 'stage', 'reason'].map(t => el('th', { scope: 'col' }, t))));
  const more = el('button', { type: 'button' }, 'More');
  let file = 0;
  more.onclick = async () => {
    for (const row of await load(`${set.n}/e${file++}`))
      table.append(el('tr', {}, ...row.map(v => el('td', {}, String(v)))));
    more.hidden = file === set.info.skipped_files;
  };
  box.append(el('div', { className: 'scroll' }, table), more);
  await more.onclick();
}

function makeSet(n, info) {
  const set = { n, info, page: 0, bucket: -1, found: null };
  const select = el('select', { 'aria-label': 'Bucket', onchange: () => {
    set.bucket = +select.value;
    go(set, 0);
  } }, el('option', { value: -1 }, `All buckets (${count(info.samples)})`),
    ...info.buckets.map((b, i) => el('option', { value: i }, `${b.name} (${count(b.n)})`)));
  set.select = select;
  set.marks = new Marks(info,
    () => document.querySelectorAll('.card').forEach(c => c.mark?.()));
  set.order = el('select', { 'aria-label': 'Order', onchange: () => sort(set)
    .then(() => go(set, 0), e => { report.value = e.message; }) },
    ...Object.entries(ORDERS).map(([value, o]) => el('option', { value }, o.name)));
  set.before = el('button', { type: 'button', onclick: () => go(set, set.page - 1) }, 'Previous');
  set.after = el('button', { type: 'button', onclick: () => go(set, set.page + 1) }, 'Next');
  set.input = el('input', { type: 'number', min: 1, 'aria-label': 'Page',
    onchange: () => go(set, (+set.input.value || 1) - 1) });
  set.pages = el('output', { className: 'muted' });
  set.cards = el('div', { className: 'cards' });
  const lost = el('details', {}, el('summary', {}, `Skipped inputs: ${count(info.skipped)}` +
    ` (${info.stages.map(s => `${s.name} ${count(s.n)}`).join(', ')})`));
  lost.addEventListener('toggle', () => skipped(set, lost), { once: true });
  set.section = el('section', {}, el('h2', {}, info.name),
    el('p', { className: 'muted' }, info.facts.join(' · ')),
    ...(info.skipped ? [lost] : [el('p', { className: 'muted' }, 'No skipped input is recorded.')]),
    set.marks.row, el('div', { className: 'row' }, select, set.order, set.before, set.after,
      el('label', { className: 'row' }, 'Page', set.input), set.pages), set.cards);
  return set;
}

/* ---- one sample ---- */

const dialog = document.querySelector('dialog');
let current = null;

/* Draws the source as a box and the crop, with its thumbnail, at its place in it. */
function cropFigure(r, jpeg) {
  const [h, w] = r.resize || [], [top, left] = r.crop || [0, 0], [th, tw] = r.target || [];
  if (!(w > 0 && h > 0 && tw > 0 && th > 0)) return [picture(jpeg, 'thumbnail')];
  const width = Math.min(480, 320 * w / h), percent = (a, b) => 100 * a / b + '%';
  const box = el('div', { className: 'source' });
  box.style.width = width + 'px';
  box.style.aspectRatio = `${w} / ${h}`;
  const inner = jpeg ? picture(jpeg, 'the crop') : el('i');
  Object.assign(inner.style, { left: percent(left, w), top: percent(top, h),
    width: percent(tw, w), height: percent(th, h) });
  box.append(inner);
  const s = r.source || {};
  return [el('figure', {}, box, el('figcaption', {},
    `Source ${s.w || '?'}×${s.h || '?'}, resized to ${w}×${h}; crop ${tw}×${th} at left ${left}, ` +
    `top ${top}${r.flip ? ', flipped' : ''}`))];
}

/* Draws the chosen frames on the line of the source's frames. */
function frameStrip(r) {
  if (!r.frames || r.frames.length < 2) return [];
  const all = Math.max((r.source && r.source.frames) || 0, ...r.frames.map(f => f + 1));
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'strip');
  svg.setAttribute('viewBox', `0 0 ${all} 10`);
  svg.setAttribute('preserveAspectRatio', 'none');
  const rect = (x, y, w, h, fill) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    for (const [k, v] of Object.entries({ x, y, width: w, height: h, fill })) e.setAttribute(k, v);
    svg.append(e);
  };
  rect(0, 4, all, 2, 'var(--line)');
  for (const f of r.frames) rect(f, 0, Math.max(.6, all / 400), 10, 'var(--crop)');
  return [el('h3', {}, 'Frames'), el('figure', {}, svg, el('figcaption', {},
    `${r.frames.length} of ${all} source frames: ${r.frames.join(', ')}` +
    (r.fps ? `; ${Math.round(100 * r.fps) / 100} a second` : '')))];
}

function drawTable(r) {
  if (!r.draws || !r.draws.length) return [el('p', { className: 'muted' }, 'Nothing was drawn.')];
  return [el('div', { className: 'scroll' }, el('table', {}, el('tr', {},
    ...['draw', 'among', 'pick'].map(t => el('th', { scope: 'col' }, t))),
    ...r.draws.map(d => el('tr', {}, ...[d.purpose, d.range ? d.range.map(text).join(' to ') :
      (d.options || []).map(text).join(', '), d.pick].map(v => el('td', {}, text(v ?? '')))))))];
}

/* The clip itself, or why it does not play, in a box of the size that the record says. */
function playing(set, r) {
  const video = clip(set, r, { controls: true, autoplay: true });
  if (!video) return [];
  const { w = 16, h = 9 } = r.source || {}, box = el('div', { className: 'clip' }, video);
  box.style.aspectRatio = `${w} / ${h}`;
  box.style.width = `min(${w}px, 24rem * ${w / h})`;
  video.onerror = () => box.replaceChildren(el('p', { className: 'muted' },
    'The clip does not play here: its file is elsewhere, or the browser does not know its ' +
    'format.'));
  return [box];
}

/* Inputs stand beside the crop of what they belong to. */
const view = async (set, at, s) => [...playing(set, s.record), el('div', { className: 'beside' },
  ...cropFigure(s.record, s.jpeg), ...inputFigures(set, s.record),
  ...await soundFigure(set, at, s)), ...frameStrip(s.record)];

/* The clip, crop and frames of a sample, with those of its twin beside. */
async function views(set, at, s) {
  const twin = await twinOf(set, at);
  if (twin < 0) return view(set, at, s);
  const part = async (of, i, v) => el('section', {}, el('h3', {}, of.info.name),
    ...await view(of, i, v));
  return [el('div', { className: 'views' }, await part(set, at, s),
    await part(set.other, twin, await sample(set.other, twin)))];
}

async function open(set, at) {
  const s = await sample(set, at), r = s.record, list = shown(set);
  let i = 0;
  while (i < list.n && list.at(i) !== at) i++;
  const step = d => i + d >= 0 && i + d < list.n && open(set, list.at(i + d));
  const button = (name, d) => el('button', { type: 'button', disabled: i + d < 0 || i + d >= list.n,
    onclick: () => step(d) }, name);
  const focused = document.activeElement.textContent;
  current = { set, at, step, record: r };
  dialog.replaceChildren(
    el('div', { className: 'row' }, button('Previous', -1), button('Next', 1),
      el('button', { type: 'button', onclick: () => dialog.close() }, 'Close')),
    el('h2', {}, key(r)), el('p', { className: 'muted' }, [r.path, r.type, size(r),
      'bucket ' + r.key, 'latent ' + (r.latent || []).join('×'), count(r.tokens || 0) + ' tokens',
      set.info.name].filter(Boolean).join(' · ')),
    ...set.marks.controls(r), ...await views(set, at, s),
    el('h3', {}, 'Draws'), ...drawTable(r),
    el('details', {}, el('summary', {}, 'Record'), el('pre', {}, JSON.stringify(r, null, 1))));
  if (!dialog.open) dialog.showModal();
  /* The buttons are new: the one of the same name has the focus, so that keys go on. */
  else ([...dialog.querySelectorAll('.row button')].find(b => b.textContent === focused &&
    !b.disabled) || dialog.querySelector('.row button:last-child')).focus();
  dialog.scrollTop = 0;
  remember();
}

dialog.addEventListener('close', () => { current = null; remember(); });
dialog.addEventListener('keydown', e => {
  if (/TEXTAREA|VIDEO|AUDIO/.test(e.target.tagName)) return;
  if (e.key === 'x' && current) dialog.querySelector('input[type=checkbox]').click();
  const d = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
  if (d && current) { e.preventDefault(); current.step(d); }
});

/* ---- search ---- */

const form = document.querySelector('#find'), box = form.querySelector('input');
const report = form.querySelector('output');
let searching = null;

/* A word of a search that compares a number. */
const CONDITION = /^(frames|tokens|width|height|number|sound)(<=|>=|<|>|=)(\d+)$/;

/* Keeps the found samples, or those of all, that meet a condition. */
async function keep(set, condition) {
  const [, name, sign, text] = CONDITION.exec(condition), n = +text;
  const keys = (await keysOf(set))[name];
  const test = { '<': v => v < n, '>': v => v > n, '<=': v => v <= n, '>=': v => v >= n,
                 '=': v => v === n }[sign];
  set.found = (set.found || keys.map((_, i) => i)).filter(i => test(keys[i]));
}

/* Reads the texts of all samples, a file at a time, and keeps the positions of those that have
 * every word. */
async function search() {
  const run = searching = {}, all = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const words = all.filter(w => !CONDITION.test(w));
  const conditions = all.filter(w => CONDITION.test(w));
  for (const set of sets) {
    set.found = words.length ? [] : null;
    set.page = set.first || 0;
    set.first = 0;
    for (let f = 0; words.length && f < set.info.search_files; f++) {
      const file = await load(`${set.n}/s${f}`);
      if (searching !== run) return;
      file.text.split('\n').forEach((line, i) => {
        const low = line.toLowerCase();
        if (words.every(w => low.includes(w))) set.found.push(file.from + i);
      });
      report.value = `searched ${Math.round(100 * (f + 1) / set.info.search_files)} %`;
    }
    for (const c of conditions) await keep(set, c);
    if (searching !== run) return;
    await sort(set);
  }
  if (searching !== run) return;
  report.value = all.length ? sets.map(s => `${count(s.found.length)} found`).join(', ') : '';
  const shows = sets.map(show);                  // each has its size now
  document.querySelector('#sets').hidden = false;
  await Promise.all(shows);
}

form.addEventListener('submit', e => {
  e.preventDefault();
  search().catch(e => { report.value = e.message; });
});
/* The browser's cross empties the box; Enter has submitted it already. */
box.addEventListener('search', () => { if (!box.value) form.requestSubmit(); });

/* ---- keys, and the address ---- */

document.addEventListener('keydown', e => {
  const typing = /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName);
  if (e.key === '/' && !typing && !dialog.open) { e.preventDefault(); box.focus(); return; }
  const cards = document.activeElement.classList.contains('card')
    ? [...document.activeElement.closest('.cards').querySelectorAll('.card')] : [];
  if (!cards.length || dialog.open) return;
  const top = c => c.getBoundingClientRect().top;
  const across = cards.findIndex((c, i) => i && top(c) > top(cards[0]));
  const d = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[e.key];
  const to = d && cards[cards.indexOf(document.activeElement) + d];
  if (to) { e.preventDefault(); to.focus(); }
});

/* Keeps the state in the address, so that a view can be shared: q=WORDS, pair=1, for dataset N
 * bN=BUCKET pN=PAGE, and s=DATASET.POSITION of the open sample. */
let ready = false;
function remember() {
  if (!ready) return;
  const state = new URLSearchParams();
  if (box.value) state.set('q', box.value);
  if (pairing.checked) state.set('pair', 1);
  for (const set of sets) {
    if (set.bucket >= 0) state.set('b' + set.n, set.bucket);
    if (set.page) state.set('p' + set.n, set.page + 1);
  }
  if (current) state.set('s', `${current.set.n}.${current.at}`);
  history.replaceState(null, '', '#' + state);
}

async function start() {
  const all = document.querySelector('#sets');
  for (let n = 0, info; n === 0 || n < info.datasets; n++) {
    info = await load(`${n}/index`);
    sets.push(makeSet(n, info));
  }
  sets.forEach((s, i) => { s.other = sets.length === 2 ? sets[1 - i] : null; });
  pairing.addEventListener('change', () => {
    layOut();
    for (const set of sets) go(set, set.page);
  });
  all.append(...sets.map(s => s.section));
  const state = new URLSearchParams(location.hash.slice(1));
  box.value = state.get('q') || '';
  for (const set of sets) {
    set.bucket = set.select.value = state.has('b' + set.n) ? +state.get('b' + set.n) : -1;
    set.first = (+state.get('p' + set.n) || 1) - 1;
  }
  pairing.checked = sets.length === 2 && state.has('pair');
  layOut();
  await search();
  const [n, at] = (state.get('s') || '').split('.').map(Number);
  if (sets[n] && at >= 0 && at < sets[n].info.samples) await open(sets[n], at);
  ready = true;
}
start().catch(e => document.body.append(el('p', {}, e.message)));
