#!/usr/bin/env bash
# vlat report --browse: the files, refusals, and in Chromium, if there is one, the page itself:
# thumbnails, search, a sample's crop, frames and draws, keys, two datasets, hostile text, a narrow
# window and the memory of a large dataset.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"
need browse_dataset set.lmdb 2000
need vlat select set.lmdb 'type = image and sample > 100' --out some.lmdb

expect 0 '^one.html$' vlat report set.lmdb --browse one.html
[ "$(find one.data -name '*.js' | wc -l)" -eq 44 ] || wrong "$(find one.data) files"
for f in $(find one.data -name '*.js'); do
    [ "$(wc -l <"$f")" -eq 1 ] || wrong "$f has a line end inside its value"
done
absent one.data.new
expect 0 '' vlat report set.lmdb some.lmdb --browse two.html
# a second call replaces the folder, but no other folder of that name
echo old >one.data/0/old.js
expect 0 '^one.html$' vlat report set.lmdb --browse one.html
absent one.data/0/old.js
mkdir mine.data && echo mine >mine.data/notes
expect 1 'mine.data is there and was not made by' vlat report set.lmdb --browse mine.html
holds mine.data/notes mine
absent mine.html mine.data.new
expect 2 'ends in .html' vlat report set.lmdb --browse page.txt
expect 2 'one dataset, or two' vlat report set.lmdb set.lmdb some.lmdb --browse three.html
expect 1 'none.lmdb' vlat report none.lmdb --browse none.html
absent none.html
# a kill or a full disk keeps the old page and its folder
find one.data -type f -exec md5sum {} + | sort >before
check kill 137 fault 'write@one.data.new/0/c0:9:kill' vlat report some.lmdb --browse one.html
expect 1 'one.data.new.*No space' fault 'write@one.data.new/0/c0:9+:ENOSPC' \
    vlat report set.lmdb --browse one.html
find one.data -type f -exec md5sum {} + | sort | cmp - before || wrong "the old data changed"
expect 0 '^one.html$' vlat report set.lmdb --browse one.html

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "not tested: the page, as there is no chromium"; exit 0; }

# page PAGE HASH [WIDTHS]: opens a page at a width of 1280, or at others beside each other, runs the
# script on stdin in each when it is ready, and leaves in $log a line "done ..." with what the
# script gave to say(). The page's console is the way out, so nothing depends on the time that it
# takes.
page()
{
    local name=${1%.html}.test widths=(${3:-1280})
    rm -rf "$name.data"
    cp -r "${1%.html}.data" "$name.data"
    {
        sed '/<\/body>/,$d' "$1"
        echo '<script>const lines = [], say = t => lines.push(String(t));'
        echo 'const wait = ms => new Promise(done => setTimeout(done, ms));'
        echo 'const until = async test => { while (!test()) await wait(20); };'
        echo '(async () => { await until(() => ready); try {'
        cat
        echo '} catch (e) { say("error: " + e); } console.log("done " + lines.join("; ") + ".");'
        echo '})();</script></body></html>'
    } >"$name.html"
    {
        echo '<!doctype html><title></title><body>'
        printf "<iframe width=%d height=900 style='border: 0' src='$name.html#$2'></iframe>" \
            "${widths[@]}"
    } >frames.html
    : >"$log"
    timeout 400 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
        --enable-precise-memory-info --js-flags=--expose-gc --enable-logging=stderr \
        --window-size=1800,1000 "file://$PWD/frames.html" >>"$log" 2>&1 &
    until [ "$(grep -c 'CONSOLE.*"done ' "$log")" -eq "${#widths[@]}" ]; do
        kill -0 $! 2>/dev/null || { wrong "$1: the page never got ready"; break; }
        sleep 0.1
    done
    kill $! 2>/dev/null || true
    wait $! || true
    sed -i '/CONSOLE/!d' "$log"
}

page one.html '' <<'END'
say('cards ' + document.querySelectorAll('.card').length);
const image = [...document.querySelectorAll('.card img')].pop();
await image.decode();
say('picture ' + image.naturalWidth + 'x' + image.naturalHeight);
say('buckets ' + sets[0].select.options.length + ' ' + sets[0].select.options[1].text);
const old = document.querySelector('.card');
sets[0].select.value = 1;
sets[0].select.onchange();
await until(() => document.querySelector('.card') !== old);
say('second ' + sets[0].pages.value);
document.querySelector('details').open = true;
await until(() => document.querySelector('details td'));
say('skipped ' + document.querySelector('details table').textContent);
const press = (e, key) => e.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
press(document, '/');
say('focus ' + (document.activeElement === box));
const cards = document.querySelectorAll('.card');
cards[0].focus();
press(cards[0], 'ArrowRight');
say('right ' + (document.activeElement === cards[1]));
press(cards[1], 'ArrowDown');
say('down ' + (document.activeElement.offsetTop > cards[1].offsetTop));
document.activeElement.click();
await until(() => dialog.open);
const title = dialog.querySelector('h2').textContent;
say('open ' + dialog.open + ' ' + title);
press(dialog, 'ArrowRight');
await until(() => dialog.querySelector('h2').textContent !== title);
say('next ' + dialog.querySelector('h2').textContent);
say('address ' + location.hash);
END
output_has \
    'done cards 50; picture 16x12; buckets 3 1×8×4 latent (667); second of 27, 1,333 samples;'
output_has 'rowpathstagereason8<script>document.title='"'pwned'"'</script>.mp4probeno video'
output_has 'focus true; right true; down true; open true 0000000000[0-9]*/000; next 0000'
output_has 'address #b0=1&s=0.677\.'
output_lacks 'error'

# hostile text is shown and not run; one sample shows its crop, its frames and its draws
page one.html 'q=onerror' <<'END'
say('found ' + report.value + ' of ' + document.querySelectorAll('.card').length);
await open(sets[0], sets[0].found[0]);
await wait(300);
const bad = '.card script, dialog script, dialog img[src=x]';
say('scripts ' + document.querySelectorAll(bad).length);
say('shown ' + dialog.querySelector('textarea').value.includes('<' + '/script>");document'));
say(document.title);
dialog.close();
box.value = '';
await search();
await open(sets[0], 1500);
const all = dialog.querySelector('.source'), crop = all.firstChild;
const part = (a, b) => Math.round(100 * a / b);
say('crop ' + [part(crop.offsetLeft, all.clientWidth), part(crop.offsetTop, all.clientHeight),
               part(crop.offsetWidth, all.clientWidth), part(crop.offsetHeight, all.clientHeight)]);
say(dialog.querySelector('figcaption').textContent);
say('strip ' + dialog.querySelectorAll('.strip rect').length);
say(dialog.querySelector('table').textContent);
END
output_has 'done found 1 found of 1; scripts 0; shown true; set.lmdb;'
output_has 'crop 16,0,84,100; Source 128×72, resized to 57×32; crop 48×32 at left 9, top 0'
output_has 'strip 4; drawamongpickstart0 to 204'

# two datasets, a search in both, in a wide and in a narrow window
page two.html 'q=number+9+sings' '1280 390' <<'END'
const [a, b] = sets.map(s => s.section.getBoundingClientRect());
say(report.value);
say(b.left > a.right ? 'beside' : b.top >= a.bottom ? 'below' : 'over');
say('wide ' + (document.documentElement.scrollWidth > innerWidth) + ' ' + innerWidth);
await open(sets[1], 0);
say('dialog ' + (dialog.scrollWidth > dialog.clientWidth));
END
output_has 'done 542 found, 174 found; beside; wide false 1280; dialog false\.'
output_has 'done 542 found, 174 found; below; wide false 390; dialog false\.'

# memory of the page when more files were shown than it keeps; a missing file is an error that names
# the file, not an empty page
need browse_dataset large.lmdb 5000
need vlat report large.lmdb --browse large.html
rm large.data/0/c0/99.js
page large.html '' <<'END'
for (let file = 0; file < 99; file++) await samples(sets[0], file);
await go(sets[0], 99);
say(document.querySelector('.cards').textContent);
box.value = 'bird';
await search();
gc();
const used = performance.memory.usedJSHeapSize / 2 ** 20;
say(report.value + ' ' + kept.size + ' ' + (used < 64 ? 'small' : used));
END
output_has '0/c0/99.js is missing in large.test.data'
output_has '4,999 found 80 small\.'
