"""What symbols, units, currencies and abbreviations are called. Data only."""

# ruff: noqa: SIM905 -- a row of words reads better than a column of strings

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Currency:
    one: str
    many: str
    part: str
    parts: str


CURRENCIES = {
    "$": Currency("dollar", "dollars", "cent", "cents"),
    "€": Currency("euro", "euros", "cent", "cents"),
    "£": Currency("pound", "pounds", "penny", "pence"),
    "¥": Currency("yen", "yen", "sen", "sen"),
    "₹": Currency("rupee", "rupees", "paisa", "paise"),
    "₩": Currency("won", "won", "jeon", "jeon"),
    "₽": Currency("ruble", "rubles", "kopeck", "kopecks"),
    "¢": Currency("cent", "cents", "cent", "cents"),
}
MAGNITUDES = {
    **{word: word for word in ("hundred", "thousand", "million", "billion", "trillion")},
    **dict.fromkeys(("k", "K"), "thousand"),
    **dict.fromkeys(("m", "M", "mn", "mln"), "million"),
    **dict.fromkeys(("b", "B", "bn"), "billion"),
    **dict.fromkeys(("t", "T", "tn"), "trillion"),
}
UNITS = {
    "mm": ("millimeter", "millimeters"),
    "cm": ("centimeter", "centimeters"),
    "m": ("meter", "meters"),
    "km": ("kilometer", "kilometers"),
    "ft": ("foot", "feet"),
    "mi": ("mile", "miles"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "kg": ("kilogram", "kilograms"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "L": ("liter", "liters"),
    "ms": ("millisecond", "milliseconds"),
    "sec": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "h": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "mph": ("mile per hour", "miles per hour"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "V": ("volt", "volts"),
}
PER = {"s": "second", "h": "hour", "min": "minute", "m": "meter", "kg": "kilogram", "L": "liter"}
"""Units that stand below a stroke."""

PUNCTUATION = {
    **{mark: mark for mark in ";:,.!?—…()“”"},
    **dict.fromkeys("[{", "("),
    **dict.fromkeys("]}", ")"),
    **dict.fromkeys("«„", "“"),
    "»": "”",
    "–": "—",
    **dict.fromkeys("。．", "."),
    **dict.fromkeys("、，", ","),
    **dict.fromkeys("！", "!"),
    **dict.fromkeys("？", "?"),
    **dict.fromkeys("：", ":"),
    **dict.fromkeys("；", ";"),
}
SYMBOLS = {
    "&": "and",
    "@": "at",
    "+": "plus",
    "=": "equals",
    "%": "percent",
    "×": "times",
    "÷": "divided by",
    "±": "plus or minus",
    "≈": "approximately",
    "≠": "not equal to",
    "≤": "less than or equal to",
    "≥": "greater than or equal to",
    "°": "degrees",
    "√": "square root of",
    "∞": "infinity",
    "→": "to",
    "§": "section",
    "№": "number",
    "²": "squared",
    "³": "cubed",
    "½": "one half",
    "⅓": "one third",
    "⅔": "two thirds",
    "¼": "one quarter",
    "¾": "three quarters",
}
BEFORE_NUMBER = {"#": "number", "~": "about", "-": "minus", "−": "minus"}
BETWEEN_NUMBERS = {
    "*": "times",
    "/": "slash",
    "<": "is less than",
    ">": "is greater than",
    "-": "minus",
    "−": "minus",
    "^": "to the power of",
    ":": "to",
}
IN_ADDRESS = {
    ".": "dot",
    "/": "slash",
    "@": "at",
    "-": "dash",
    "_": "underscore",
    "+": "plus",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "#": "hash",
    "%": "percent",
    ":": "colon",
    "~": "tilde",
    ",": "comma",
}

MONTHS = (
    "January February March April May June July August September October November December"
).split()
ABBREVIATIONS = {
    **{month[:3].lower(): month for month in MONTHS if month != "May"},
    "mr": "mister",
    "mrs": "missus",
    "ms": "miz",
    "messrs": "messers",
    "dr": "doctor",
    "prof": "professor",
    "st": "saint",
    "mt": "mount",
    "ft": "fort",
    "gen": "general",
    "col": "colonel",
    "maj": "major",
    "sgt": "sergeant",
    "capt": "captain",
    "cmdr": "commander",
    "lt": "lieutenant",
    "rev": "reverend",
    "hon": "honorable",
    "gov": "governor",
    "sen": "senator",
    "rep": "representative",
    "pres": "president",
    "sept": "September",
    "jr": "junior",
    "sr": "senior",
    "inc": "incorporated",
    "ltd": "limited",
    "co": "company",
    "corp": "corporation",
    "bros": "brothers",
    "dept": "department",
    "univ": "university",
    "assoc": "association",
    "est": "established",
    "approx": "approximately",
    "ave": "avenue",
    "blvd": "boulevard",
    "rd": "road",
    "hwy": "highway",
    "etc": "et cetera",
    "vs": "versus",
    "al": "al",
    "esp": "especially",
    "incl": "including",
    "min": "minimum",
    "max": "maximum",
}
AFTER_NAME = {"dr": "drive", "st": "street", "ft": "feet"}
"""Read so where no name follows: Elm Dr., but Dr. Smith."""
BEFORE_NUMBERS_ONLY = {
    "no": "number",
    "nos": "numbers",
    "vol": "volume",
    "fig": "figure",
    "ch": "chapter",
    "sec": "section",
    "p": "page",
    "pp": "pages",
    "ver": "version",
}
MAY_END_SENTENCE = frozenset(
    "etc jr sr inc ltd co corp bros ave blvd rd hwy dr st ft al a.m p.m".split()
)
DOTTED = {"e.g": "for example", "i.e": "that is"}
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
        "sigma tau upsilon phi chi psi omega".split(),
        strict=True,
    )
)
CYRILLIC = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ",
        "a b v g d e yo zh z i y k l m n o p r s t u f kh "
        "ts ch sh shch . y . e yu ya i yi ye g".split(),
        strict=True,
    )
)
"""A dot stands for a letter without a sound of its own."""
LATIN = dict(zip("ßæœøłđðþıħŋ", "ss ae oe o l d th th i h ng".split(), strict=True))
