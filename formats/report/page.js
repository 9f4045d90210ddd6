/* The script of a report: the search in grids of cards, and rows of pictures by step. Charts have a
 * script of their own, charts.js. */

/* What a reader chose on this page, which stays when the page is loaded again. */
const chosen = (() => {
  const name = 'vlt ' + location.pathname;
  let value = {};
  try { value = JSON.parse(sessionStorage.getItem(name)) || {}; } catch { /* nothing is kept */ }
  return {
    get: (key, other) => key in value ? value[key] : other,
    set: (key, v) => {
      value[key] = v;
      try { sessionStorage.setItem(name, JSON.stringify(value)); } catch { /* as above */ }
    },
  };
})();

/* Of a page that follows its server (live.js): each takes over its part of the newer page, and
 * returns false where it cannot. */
const renewals = [];

/* A card is shown if its text has every word typed; the search starts when typing pauses. */
for (const box of document.querySelectorAll('.find')) {
  const cards = [...box.nextElementSibling.children], input = box.querySelector('input');
  const count = box.querySelector('output'), texts = [];
  let wait;
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    cards.forEach((card, i) => {
      texts[i] ||= card.textContent.toLowerCase();
      card.hidden = !words.every(w => texts[i].includes(w));
      shown += !card.hidden;
    });
    count.value = shown + ' of ' + cards.length;
  };
  input.addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(filter, 120); });
  filter();
}

/* ---- pictures by step ---- */

/* A clip plays while the pointer is over it or it has the focus. */
function playOnHover(box) {
  const clips = () => box.querySelectorAll('video');
  const start = () => clips().forEach(v => v.play().catch(() => {}));
  const stop = () => clips().forEach(v => v.pause());
  box.addEventListener('pointerenter', start);
  box.addEventListener('pointerleave', stop);
  box.addEventListener('focusin', start);
  box.addEventListener('focusout', stop);
}

/* Plays a clip's sound, with the clip, by a button and by a click on its wave, which plays from
 * there; a line in the wave is at its time. The browser's own player moves its parts as it loads. */
function makeSound(sound, clip) {
  const wave = sound.querySelector('.wave'), line = wave.querySelector('i');
  const player = el('audio', { preload: 'none', src: clip.src });
  const button = sound.querySelector('.player');
  const move = () => {
    line.style.left = `${player.duration > 0 ? 100 * player.currentTime / player.duration : 0}%`;
    line.hidden = !player.currentTime;
  };
  const playFrom = share => {
    const seek = () => {
      player.currentTime = share * player.duration;
      player.play().catch(() => {});
    };
    if (player.readyState) return seek();
    player.preload = 'metadata';
    player.addEventListener('loadedmetadata', seek, { once: true });
    player.load();
  };
  sound.append(player);
  button.disabled = false;
  button.addEventListener('click', () => {
    if (!player.paused) player.pause();
    else if (player.ended || !player.currentTime) playFrom(0);
    else player.play().catch(() => {});
  });
  player.addEventListener('play', () => {
    button.textContent = 'Pause the sound';
    clip.currentTime = player.currentTime;
    clip.play().catch(() => {});
    const step = () => { move(); if (!player.paused) requestAnimationFrame(step); };
    step();
  });
  player.addEventListener('pause', () => {
    button.textContent = 'Play the sound';
    clip.pause();
    move();
  });
  player.addEventListener('seeked', () => { clip.currentTime = player.currentTime; move(); });
  wave.addEventListener('click', e => {
    const box = wave.getBoundingClientRect();
    playFrom((e.clientX - box.left) / box.width);
  });
  move();
}

/* A step's picture; its clip has the browser's controls only while it has the focus. */
function makeShot(shot) {
  const clip = shot.querySelector('video');
  playOnHover(shot);
  if (!clip) return;
  const sound = shot.querySelector('.sound');
  if (sound) makeSound(sound, clip);
  clip.controls = false;
  clip.tabIndex = 0;
  clip.addEventListener('focus', () => { clip.controls = true; });
  clip.addEventListener('blur', () => { clip.controls = false; });
}

/* Clips of cards play as those of rows do. */
function makeCards(root) {
  for (const card of root.querySelectorAll('.card')) makeShot(card);
}

/* A copy of a picture without controls; copies of clips begin together. */
function copyOf(shot) {
  const copy = shot.querySelector('img, video').cloneNode();
  copy.removeAttribute('controls');
  copy.removeAttribute('tabindex');
  copy.preload = 'auto';
  return copy;
}

/* The box in which a row's steps lie over each other: the page has it where the row has had two
 * pictures from the beginning. */
function boxOf(row) {
  const box = row.closest('.prompt');
  if (!box.querySelector('.pair'))
    row.before(el('div', { className: 'pair' }, el('div', { className: 'stack' }),
      el('div', { className: 'choice' })));
  box.classList.add('two');
  return box.querySelector('.pair');
}

/* Lays two steps of a prompt over each other with a handle between them. */
function makePair(row, index) {
  const shots = [...row.querySelectorAll('[data-step]')];
  const names = shots.map(s => s.dataset.step);
  const title = row.getAttribute('aria-label');
  const pair = boxOf(row), stack = pair.querySelector('.stack'), line = el('i');
  const choose = (key, value, label) => {
    const select = el('select', { 'aria-label': `${label} of ${title}` },
      ...names.map(n => el('option', { value: n }, `step ${n}`)));
    const kept = chosen.get(key, value);
    select.value = names.includes(kept) ? kept : value;
    select.addEventListener('change', () => { chosen.set(key, select.value); draw(); });
    return select;
  };
  const add = shot => {
    const last = names[names.length - 1], name = shot.dataset.step;
    shots.push(shot);
    names.push(name);
    for (const select of [left, right])
      select.append(el('option', { value: name }, `step ${name}`));
    if (right.value === last) right.value = name;
    draw();
  };
  const left = choose('left' + index, names[0], 'Left step');
  const right = choose('right' + index, names[names.length - 1], 'Right step');
  const handle = el('input', { type: 'range', min: 0, max: 100, step: 1, value: 50,
    'aria-label': `Where the right step of ${title} begins, in percent` });
  const move = () => {
    if (stack.children[1]) stack.children[1].style.clipPath = `inset(0 0 0 ${handle.value}%)`;
    line.style.left = `calc(${handle.value}% - 1px)`;
  };
  const draw = () => {
    stack.replaceChildren(...[left, right].map(s => copyOf(shots[names.indexOf(s.value)])), line);
    const shown = [left.value, right.value];
    shots.forEach((s, i) => s.classList.toggle('now', shown.includes(names[i])));
    move();
  };
  handle.addEventListener('input', move);
  stack.addEventListener('pointermove', e => {
    if (e.pointerType === 'touch' && !e.isPrimary) return;
    const box = stack.getBoundingClientRect();
    handle.value = 100 * (e.clientX - box.left) / box.width;
    move();
  });
  draw();
  pair.querySelector('.choice').replaceChildren(left, handle, right);
  playOnHover(pair);
  return { names, add, show: step => {
    const at = names.filter(n => +n <= step);
    right.value = at.length ? at[at.length - 1] : names[0];
    draw();
  } };
}

/* One slider moves the right step of all prompts. */
function makeStepSlider(pairs) {
  const steps = [...new Set(pairs.flatMap(p => p.names))].map(Number).sort((a, b) => a - b);
  const useful = pairs.length > 1 && steps.length > 2;
  let slider = document.querySelector('#all-steps');
  if (slider) slider.closest('.controls').hidden = !useful;
  if (!useful) return;
  if (!slider) {
    slider = el('input', { type: 'range', id: 'all-steps' });
    document.querySelector('.prompt').previousElementSibling.before(
      el('div', { className: 'controls still' }, el('label', {}, 'All prompts at ', slider),
        el('output')));
  }
  const value = slider.closest('.controls').querySelector('output');
  const last = steps.length - 1;
  Object.assign(slider, { min: 0, max: last, step: 1, value: last, disabled: false });
  value.value = `step ${steps[last]}`;
  slider.oninput = () => {
    value.value = `step ${steps[slider.value]}`;
    for (const p of pairs) p.show(steps[slider.value]);
  };
}

{
  makeCards(document);
  const rows = [...document.querySelectorAll('.steps')];
  const shotsOf = row => [...row.querySelectorAll('[data-step]')];
  const inputs = document.querySelectorAll('.input').length;
  for (const shot of document.querySelectorAll('.prompt figure')) makeShot(shot);
  const pairs = new Map();
  rows.forEach((r, i) => { if (shotsOf(r).length > 1) pairs.set(r, makePair(r, i)); });
  for (const row of rows) row.scrollLeft = row.scrollWidth;
  makeStepSlider([...pairs.values()]);

  /* Steps that came are added at the ends of their rows. */
  const grow = (row, index, newer) => {
    const had = shotsOf(row).map(s => +s.dataset.step);
    const come = shotsOf(newer).filter(s => !had.includes(+s.dataset.step));
    if (newer.getAttribute('aria-label') !== row.getAttribute('aria-label') ||
        come.some(s => +s.dataset.step < had[had.length - 1])) return false;
    const atEnd = row.scrollLeft + row.clientWidth > row.scrollWidth - 8;
    for (const shot of come) {
      row.append(shot);
      makeShot(shot);
      if (pairs.has(row)) pairs.get(row).add(shot);
    }
    if (!pairs.has(row) && shotsOf(row).length > 1) pairs.set(row, makePair(row, index));
    if (atEnd) row.scrollLeft = row.scrollWidth;
    return true;
  };
  renewals.push(page => {
    const newer = [...page.querySelectorAll('.steps')];
    const good = page.querySelectorAll('.input').length === inputs &&
      newer.length === rows.length && rows.every((r, i) => grow(r, i, newer[i]));
    if (good) makeStepSlider([...pairs.values()]);
    return good;
  });
}
