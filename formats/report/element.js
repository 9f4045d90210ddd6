'use strict';
/* What the scripts of all pages begin with (browse.js, page.js). */

/* Makes an element; text becomes a text node. */
function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props))
    if (name in e) e[name] = value; else e.setAttribute(name, value);
  e.append(...children);
  return e;
}
