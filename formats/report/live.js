'use strict';
/* Lets a page that vlat report --serve gives follow its server: when the answer to HEAD has another
 * ETag than the page, the page is loaded and its news are taken over, without losing what
 * the reader chose. A page whose parts are others is loaded as a whole. */
(() => {
  const EVERY = 2000, SLOW = 10000;                        // milliseconds; SLOW: without an answer
  const state = document.querySelector('.follows');
  let tag = document.documentElement.dataset.tag, silent = false;

  const ago = s => s < 2 ? 'now' : s < 120 ? `${Math.round(s)} s ago` :
    s < 7200 ? `${Math.round(s / 60)} min ago` : s < 172800 ? `${Math.round(s / 3600)} h ago` :
    `${Math.round(s / 86400)} days ago`;

  /* Texts, tables and grids stand in the same order in both pages. */
  function renewTexts(page) {
    const parts = d => [...d.querySelectorAll(
      'main > p, main > .scroll, main > .grid, main > nav, main > figure:not(.lines)')];
    const old = parts(document), newer = parts(page);
    const kind = e => e.tagName + e.className;
    const source = e => e.textContent + [...e.querySelectorAll('[src]:not(audio)')].map(m => m.src).join();
    if (old.length !== newer.length || old.some((e, i) => kind(e) !== kind(newer[i]))) return false;
    old.forEach((e, i) => {
      if (source(e) === source(newer[i])) return;
      e.replaceWith(newer[i]);
      makeCards(newer[i]);
    });
    return true;
  }

  async function renew() {
    const answer = await fetch(location.pathname, { cache: 'no-store' });
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const next = page.documentElement.dataset.tag;
    if (!answer.ok || !next) throw new Error(answer.statusText);
    const sections = d => [...d.querySelectorAll('main > h2, main > h3')]
      .map(e => e.textContent).join('\n');
    if (sections(page) !== sections(document) || !renewTexts(page) || renewals.some(f => !f(page)))
      location.reload();
    tag = next;
  }

  async function poll() {
    try {
      const head = await fetch(location.pathname, { method: 'HEAD', cache: 'no-store',
        signal: AbortSignal.timeout(SLOW) });
      if (!head.ok) throw new Error(head.statusText);
      if (head.headers.get('ETag') !== `"${tag}"`) await renew();
      const at = n => Date.parse(head.headers.get(n));
      const age = (at('Date') - at('Last-Modified')) / 1000;
      state.value = 'This page follows its server' +
        (age >= 0 ? `; last change ${ago(age)}` : '');
      silent = false;
    } catch {
      if (!silent) state.value = `The server does not answer since ${
        new Date().toLocaleTimeString()}. The page shows what it had.`;
      silent = true;
    }
    state.classList.toggle('silent', silent);
    setTimeout(poll, document.hidden ? 5 * EVERY : EVERY);
  }
  poll();
})();
