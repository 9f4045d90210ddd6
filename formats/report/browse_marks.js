/* What a reader marks on the page of vlat report --browse: samples to leave out and other captions.
 * They are kept by the browser for this page and dataset, and saved as a list that vprep takes
 * (--edits). */

class Marks {
  constructor(info, changed) {
    this.name = info.name;
    this.store = `vlt marks ${location.pathname} ${info.name}`;
    this.changed = changed;
    this.all = {};
    try { this.all = JSON.parse(localStorage.getItem(this.store)) || {}; } catch { /* none kept */ }
    this.state = el('output', { className: 'muted' });
    this.save = el('button', { type: 'button', onclick: () => this.download() }, 'Save the list');
    this.forget = el('button', { type: 'button', onclick: () => {
      if (confirm(`Forget all marks of ${this.name}?`)) { this.all = {}; this.keep(); }
    } }, 'Forget');
    this.row = el('div', { className: 'row marks' }, this.state, this.save, this.forget);
    this.show();
  }

  of(r) { return this.all[r.id] || {}; }

  /* Changes the mark of a record; a mark that says nothing is removed. */
  set(r, change) {
    const mark = { path: r.path, ...this.of(r), ...change };
    const own = captions(r);
    if (mark.captions && mark.captions.every((c, i) => c === own[i])) delete mark.captions;
    if (mark.exclude || mark.captions) this.all[r.id] = mark; else delete this.all[r.id];
    this.keep();
  }

  keep() {
    try { localStorage.setItem(this.store, JSON.stringify(this.all)); } catch { /* as above */ }
    this.show();
    this.changed();
  }

  show() {
    const list = Object.values(this.all), out = list.filter(m => m.exclude).length;
    const other = list.filter(m => m.captions && !m.exclude).length;
    this.row.hidden = !list.length;
    this.state.value = `${count(out)} left out, ${count(other)} with other captions. ` +
      `vprep --edits ${this.fileName()} applies the list.`;
  }

  fileName() { return this.name.replace(/[^\w.-]/g, '_') + '.edits.jsonl'; }

  /* The list as vprep reads it: a line for each sample. */
  text() {
    return Object.entries(this.all).map(([id, m]) => JSON.stringify(m.exclude
      ? { id, path: m.path, exclude: true }
      : { id, path: m.path, captions: m.captions }) + '\n').join('');
  }

  download() {
    const url = URL.createObjectURL(new Blob([this.text()], { type: 'application/jsonl' }));
    const link = el('a', { href: url, download: this.fileName() });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  /* The part of a sample's dialog that marks it. */
  controls(r) {
    const mark = this.of(r), own = captions(r);
    const out = el('input', { type: 'checkbox', checked: !!mark.exclude,
      onchange: () => this.set(r, { exclude: out.checked }) });
    const boxes = (own.length ? own : ['']).map((c, i) => el('textarea', { rows: 3,
      value: mark.captions ? mark.captions[i] : c, 'aria-label': `Caption ${i + 1}`,
      oninput: () => this.set(r, { captions: boxes.map(b => b.value) }) }));
    return [...boxes, el('label', { className: 'row' }, out, 'Leave this sample out ( x )')];
  }
}
