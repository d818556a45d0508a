"""From text to phonemes: lexemes, their spoken words, a lexicon, letter rules, and utterances."""
