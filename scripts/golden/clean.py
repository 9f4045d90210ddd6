"""tests/golden/clean.json: prompts, and what Wan's pipeline makes of them where ftfy is installed.

The prompts are captions of many languages as people have them, and the same decoded wrongly, up to
three times, in the encodings that programs confuse: with characters lost, blanks in place of
no-break spaces, joined with others, cut, and with references of HTML. `made_by` names the versions.
"""
import html
import html.entities
import json
import pathlib

import diffusers
import ftfy
import ftfy.bad_codecs
import numpy as np
from diffusers.pipelines.wan.pipeline_wan import prompt_clean

N = 2000
CAPTIONS = [
    "A cat lies on a cushion.", "“A woman” — she’s looking at the sea…",
    "Café crème à la carte, naïve façade", "Ein Mädchen läuft über die Straße; größer",
    "El niño comió una piñata ¿verdad? ¡Sí!", "Le garçon a mangé l’œuf à l’école",
    "Čeština: žluťoučký kůň úpěl ďábelské ódy", "Zażółć gęślą jaźń",
    "Привет, мир! Кошка лежит на диване", "Ελληνικά: η γάτα κοιμάται", "猫がソファで寝ている。",
    "一只猫躺在沙发上，阳光明媚。", "고양이가 소파에 누워 있다", "قطة مستلقية على الأريكة",
    "חתול שוכב על הספה", "แมวนอนอยู่บนโซฟา", "बिल्ली सोफे पर लेटी है",
    "Con mèo nằm trên ghế sofa, đẹp lắm", "🐱 cat on 🛋️ with 👨‍👩‍👧 and ✨",
    "Price: €5 £10 ¥100 ¢50 – 20% off™ ©2024 ®", "35°C, 5×5 m², ½ cup ± 3µm",
    "ﬁne ﬂuﬃer eﬀect oﬃce", "ＬＯＵＤ　ＮＯＩＳＥＳ ｶﾀｶﾅ ﾊﾞﾝﾄﾞ", "İstanbul’da kedi; ığüşöç",
    "Åse på Ærø, smørrebrød", "Jānis ēd ķiršus, šūpoles", "a ‘quoted’ ‚low‘ „german“ «french»",
    "e\u0301 a\u0300 n\u0303 decomposed", "Sigur Rós – Ágætis byrjun",
    "à la mode, voilà, às vezes, àquele", "¯\\_(ツ)_/¯ ʕ•ᴥ•ʔ (╯°□°)╯", "Ñandú ÁÉÍÓÚ ÄËÏÖÜ",
    "100 ° § ¶ † ‡ • ∞ ≠ ≤ ≥ √ ∑ π ∂"]
ODD = [
    "", "a\r\nb\rc\u2028d\u2029e\x85f", "\x1b[31mred\x1b[0m text\x07\x7f \x1b[", "\ufeffBOM \ufffc",
    "ŉ Ǆ ǅ ǆ Ǉ ǌ Ĳsselmeer ĳs ﬅ", "<b>bold</b> &amp; &quot;x&quot;", "&eacute;\n<b>\n&eacute;\n",
    "&lt;b&gt; AT&amp;T &eacute;&EACUTE;&SZLIG;&FFILIG;&NAPOS; &#39;x&#39; &#x2019;&#59;&#1;",
    "  a\tcat\n\n on a\u00a0mat\u3000 ", "&lt;b&gt; &amp;amp;lt; &amp;amp;amp;", "AT&T &copy 2024",
    "&notit; &notin; &ampamp; &am; &a;&;&", "&#39;&#x27;&#X1F600;&#128512 &#0; &#x80; &#150;",
    "&#xD800;&#1114112;&#99999999999999999999;&#1;&#xFFFE;&#x1FFFF;&#xFDD0;&#11;x&#13;y",
    "&#; &#x; &#xg; &#-1;", "caf&eacute; &Eacute &NotEqualTilde; &fjlig; &ThickSpace;|",
    "&CounterClockwiseContourIntegral; &CounterClockwiseContourIntegralx;", " \u200b \u2028 ",
    "\u001c\u001da\u001eb\u001f", "&nbsp;&nbsp;a&nbsp;b&ensp;", "&am&#112;;quot;", "\u0085a\u0085",
    "&acute;&acut;&ac&acE;", "&lt;&LT;&LT&Lt;&lT;", "\u180ea", "&frac12&frac123;&sup2"]
# Characters that mojibake consists of, and what stands beside them.
PARTS = list("ÂÃâ€™œ”“ŽžŸ\x80\x9d\x81­®©°·»–—´ÐÎØÙà²µ¹¼½¾√±∂†≈°¢‚Äìó вЂГРСў"
             "β€ΒΓΞΟāš�\x1aaz.AZ¡¿ßþŒ\n\u00a0")
ENCODINGS = ["latin-1", "cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1257", "iso-8859-2",
             "mac-roman", "cp437", "cp850", "cp932", "gbk", "koi8-r"]
ENCODINGS += [f"sloppy-windows-125{i}" for i in (0, 1, 2, 2, 2, 3, 4, 7)]
INSERTS = ["&amp;", "&hellip;", "\x80", "\x99", "\x1a", "?", "\ufffd", "\n", "Ã", "Â ", "<", " ",
           "\x1b[1m", "&#233;", "&#x41", "&Copy;", "â€™"]


class Damage:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.names = sorted(html.entities.html5)

    def pick(self, rows):
        return rows[self.rng.integers(len(rows))]

    def once(self, s):
        """Returns a text after one accident."""
        kind, at = self.rng.integers(12), int(self.rng.integers(len(s) + 1))
        if kind < 6:
            how = self.pick(["replace", "replace", "ignore"])
            return s.encode("utf-8", "replace").decode(self.pick(ENCODINGS), how)
        return [lambda: s.replace("\u00a0", " "), lambda: s.replace("\ufffd", "?"),
                lambda: html.escape(s), lambda: s[:at // 2] + s[at:],
                lambda: s + " " + self.pick(CAPTIONS)[:20],
                lambda: s[:at] + self.pick(INSERTS) + s[at:]][kind - 6]()

    def text(self):
        kind = self.rng.integers(10)
        if kind == 0:
            s = "".join(self.pick(PARTS) for _ in range(self.rng.integers(2, 9)))
        elif kind == 1:
            parts = ["&", "&", "#", "x", ";", " ", "a", "4", "&amp;", "é"]
            s = "".join(self.pick(self.names)[:self.rng.integers(1, 12)]
                        if self.rng.integers(3) == 0 else self.pick(parts) for _ in range(12))
        else:
            s = self.pick(CAPTIONS)
        for _ in range(self.rng.integers(0, 4)):
            s = self.once(s)[:90]
        return s.replace("\0", "").encode("utf-8", "replace").decode()


def make(out):
    damage, texts = Damage(7), dict.fromkeys(CAPTIONS + ODD)
    while len(texts) < N:
        texts[damage.text()] = None
    rows = ",\n".join(json.dumps([s, prompt_clean(s)], ensure_ascii=False) for s in texts)
    made_by = f"ftfy {ftfy.__version__}, diffusers {diffusers.__version__}"
    text = f'{{"made_by":"{made_by}","pairs":[\n{rows}\n]}}\n'
    (pathlib.Path(out) / "clean.json").write_text(text)
