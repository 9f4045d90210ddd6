/* The clips and pictures of samples on the page of vlat report --browse: the sources themselves,
 * which a disk gives by their paths and a server by the samples' keys. What is elsewhere, or in a
 * format that the browser does not know, is told in words. */

/* The address of a source, or of what a role of the sample names, by its path. */
function addressOf(set, r, path, role) {
  if (!path) return null;
  if (location.protocol !== 'file:') return `media/${set.n}/${key(r)}` + (role ? '/' + role : '');
  const whole = path.startsWith('/') ? path : set.info.media && set.info.media + '/' + path;
  return whole ? 'file://' + whole.split('/').map(encodeURIComponent).join('/') : null;
}

/* ---- clips ---- */

function clip(set, r, props) {
  const src = r.type === 'video' ? addressOf(set, r, String(r.path || '')) : null;
  return src && el('video', { src, loop: true, muted: true, playsInline: true, ...props });
}

/* Plays a card's clips while the pointer is over the card or it has the focus: the sample's over
 * its picture, and those of its inputs. */
function playOver(set, r, card, over) {
  let video = null;
  const inputs = () => card.querySelectorAll('.inputs video');
  const start = () => {
    for (const v of inputs()) v.play().catch(() => {});
    if (video || !(video = clip(set, r, {}))) return;
    video.onerror = () => video?.remove();
    video.onplaying = () => video?.classList.add('plays');
    over.append(video);
    video.play().catch(() => {});
  };
  const stop = () => {
    if (card.matches(':hover, :focus')) return;
    for (const v of inputs()) v.pause();
    video?.remove();
    video = null;
  };
  for (const name of ['pointerenter', 'focus']) card.addEventListener(name, start);
  for (const name of ['pointerleave', 'blur']) card.addEventListener(name, stop);
}

/* ---- inputs ---- */

/* Columns of a row that name what the sample is made from, and what the page calls it. */
const INPUTS = {
  control_file_path: ['control', 'control'],
  input_image: ['image', 'first picture'],
};
const CLIP = /\.(mp4|m4v|mov|webm)$/i;

/* What a sample is made from, {role, name, path, size: [h, w], target: [h, w]}: its reference
 * pictures in their order, its control clip. */
function inputsOf(r) {
  const list = (r.references || []).map((p, i) => ({ role: `reference_${i + 1}`,
    name: `reference ${i + 1}`, path: String(p.path), size: p.source, target: p.target }));
  for (const [column, [role, name]] of Object.entries(INPUTS))
    if (r.extra?.[column]) list.push({ role, name, path: String(r.extra[column]) });
  return list;
}

/* The picture or clip of an input; in its place words where it cannot be shown. */
function inputPicture(set, r, input, props) {
  const src = addressOf(set, r, input.path, input.role);
  const none = el('span', { className: 'none' }, `${input.name} is elsewhere`);
  if (!src) return none;
  const shown = CLIP.test(input.path)
    ? el('video', { src, loop: true, muted: true, playsInline: true, preload: 'metadata',
      'aria-label': input.name, ...props })
    : el('img', { src, alt: input.name, loading: 'lazy', decoding: 'async' });
  shown.title = input.name;
  shown.onerror = () => shown.replaceWith(none);
  return shown;
}

/* The inputs of a card, beside its picture. */
function cardInputs(set, r) {
  const list = inputsOf(r);
  if (!list.length) return [];
  const box = el('span', { className: 'inputs' }, ...list.map(i => inputPicture(set, r, i, {})));
  box.style.setProperty('--columns', list.length > 2 ? 2 : 1);
  return [box];
}

/* The inputs of a sample with their sizes, for its dialog. */
function inputFigures(set, r) {
  return inputsOf(r).map(i => {
    const [h, w] = i.size || r.target || [9, 16];
    const box = el('div', { className: 'clip' }, inputPicture(set, r, i, { controls: true }));
    box.style.aspectRatio = `${w} / ${h}`;
    box.style.width = `min(${Math.max(w, 128)}px, 12rem * ${w / h}, 100%)`;
    return el('figure', {}, box, el('figcaption', {}, `${i.name}: ${i.path}` + (i.target
      ? `, ${w}×${h}, resized to ${i.target[1]}×${i.target[0]}` : '')));
  });
}

/* ---- sound ---- */

/* The wave that vprep put into a thumbnail, pairs of the least and the greatest value of parts of
 * the sound's time; null: there is none, as in datasets of earlier versions. */
function waveOf(jpeg) {
  const s = atob(jpeg || ''), name = 'vlt wave\0', at = i => s.charCodeAt(i);
  for (let i = 2, n; i + 4 < s.length && at(i) === 0xff && at(i + 1) !== 0xda; i += 2 + n) {
    n = 256 * at(i + 2) + at(i + 3);
    if (at(i + 1) !== 0xfe || !s.startsWith(name, i + 4)) continue;
    const bytes = s.slice(i + 4 + name.length, i + 2 + n);
    return Array.from(bytes, c => (c.charCodeAt(0) << 24 >> 24) / 127);
  }
  return null;
}

/* Draws the wave of a sound; a click on it plays the player from there, and a line is at its
 * time. */
function soundWave(wave, player, from, seconds) {
  let path = '';
  for (let i = 0; i + 1 < wave.length; i += 2)
    path += `M${i / 2} ${-wave[i] - .01}h1V${-wave[i + 1] + .01}h-1z`;
  const line = el('i', { hidden: true });
  const box = el('div', { className: 'wave', role: 'img', 'aria-label': 'the wave of the sound' });
  box.innerHTML = `<svg viewBox="0 -1 ${wave.length / 2} 2" preserveAspectRatio="none">` +
    `<path d="${path}"/></svg>`;
  box.append(line);
  if (player.tagName !== 'AUDIO') return box;
  box.classList.add('plays');
  const move = () => {
    const share = (player.currentTime - from) / seconds;
    line.style.left = `${100 * Math.min(Math.max(share, 0), 1)}%`;
    line.hidden = !(share > 0);
    if (!player.paused) requestAnimationFrame(move);
  };
  for (const name of ['play', 'pause', 'seeked']) player.addEventListener(name, move);
  box.addEventListener('click', e => {
    const { left, width } = box.getBoundingClientRect();
    player.currentTime = from + seconds * (e.clientX - left) / width;
    player.play().catch(() => {});
  });
  return box;
}

/* Draws the stored latent of a sound: frames from left to right, the channels below each other. */
function soundPicture(p) {
  const rows = p.channels * p.bins, gray = atob(p.pixels);
  const picture = el('canvas', { width: p.columns, height: rows, role: 'img',
    'aria-label': 'the stored latent of the sound' });
  const context = picture.getContext('2d'), image = context.createImageData(p.columns, rows);
  for (let i = 0; i < gray.length; i++)
    image.data.set([gray.charCodeAt(i), gray.charCodeAt(i), gray.charCodeAt(i), 255], 4 * i);
  context.putImageData(image, 0, 0);
  return picture;
}

/* When the clip begins in its source, in seconds. */
const soundBegin = r => r.source?.fps > 0 ? (r.frames?.[0] || 0) / r.source.fps : 0;

/* A player of the source's sound during the clip's frames; words where it cannot be played. */
function soundPlayer(set, r, seconds) {
  const src = addressOf(set, r, String(r.path || ''));
  const none = el('p', { className: 'muted' }, 'The sound does not play here: the file of the ' +
    'clip is elsewhere, or the browser does not know its format.');
  if (!src) return none;
  const from = soundBegin(r);
  const player = el('audio', { controls: true, preload: 'metadata', 'aria-label': 'sound',
    src: `${src}#t=${from.toFixed(3)},${(from + seconds).toFixed(3)}` });
  player.onerror = () => player.replaceWith(none);
  return player;
}

/* The sound of a sample, for its dialog: as it is in the source, and as it is stored. */
async function soundFigure(set, at, s) {
  const { chunk } = set.info, r = s.record;
  if (!s.sound) return [];
  const p = (await samples(set, Math.floor(at / chunk), 'a'))[at % chunk];
  const player = soundPlayer(set, r, s.sound), wave = waveOf(s.jpeg);
  return [el('figure', { className: 'sound' },
    ...wave ? [soundWave(wave, player, soundBegin(r), s.sound)] : [], player, soundPicture(p),
    el('figcaption', {}, `Sound, ${s.sound.toFixed(2)} s: the player has that of the source, ` +
      `${wave ? 'the wave is what vprep read of it, ' : ''}the picture is the stored latent, of ${count(p.frames)} frames from left to right and ` +
      `${p.channels} channels of ${p.bins} bins, each with its lowest bin at the bottom. Gray is ` +
      'the mean, black and white are 3 standard deviations from it.'))];
}
