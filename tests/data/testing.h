// What the tests of this floor share: made-up English and hostile texts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "support/scratch.h"

namespace athanor::data {

using TemporaryFolder = test::ScratchFolder;
using test::expect_error;

/// Documents of made-up prose: syllables as words, Zipf-like, with sentences, lines and paragraphs.
inline std::vector<std::string> sample_corpus(size_t documents, uint64_t seed) {
  static const char* const kSyllables[] = {
      "the", "and", "of", "ber",  "lan", "to",   "mi",   "shall", "un",  "to",   "lord", "re",
      "ing", "ed",  "sa", "king", "a",   "thou", "hath", "e",     "dom", "ness", "ly",   "is"};
  std::vector<std::string> texts;
  RandomStream random(seed, stream_of("test.corpus"));
  for (size_t d = 0; d < documents; ++d) {
    std::string text;
    const uint64_t words = 30 + random.below(200);
    for (uint64_t w = 0; w < words; ++w) {
      std::string word;
      const uint64_t syllables = 1 + random.below(3);
      for (uint64_t s = 0; s < syllables; ++s) {
        const double u = random.uniform();
        word += kSyllables[static_cast<size_t>(u * u * 24)];
      }
      if (w % 13 == 0) word[0] = static_cast<char>(word[0] - 'a' + 'A');
      if (w > 0) text += w % 13 == 0 ? (w % 39 == 0 ? ".\n\n" : ".\n") : " ";
      text += word;
      if (random.below(9) == 0) text += ',';
    }
    texts.push_back(text + ".\n");
  }
  return texts;
}

/// Texts that break careless tokenizers.
inline std::vector<std::string> hostile_texts() {
  using std::string_literals::operator""s;
  return {""s,
          " "s,
          "   "s,
          "\n"s,
          "\n\n\n"s,
          "\t\ttabs\t"s,
          "CR\r\nLF\rCR"s,
          "\0"s,
          "a\0b\0\0c"s,
          "  leading and trailing  "s,
          "a  b   c    d"s,
          "\xC3\xA9 and e\xCC\x81"s,
          "\xF0\x9F\x91\xA9\xF0\x9F\x8F\xBD\xE2\x80\x8D\xF0\x9F\x92\xBB"s,
          "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE\xE6\x96\x87"s,
          "\xEF\xBB\xBFmark \xE2\x80\xA8 line \xC2\x85"s,
          "\xF4\x8F\xBF\xBF \xEF\xBF\xBD \xE2\x96\x85 \xE2\x81\x87"s,
          "</s><s><unk><0x0A>"s,
          "\n the\n  and\n\n   lord\n"s,
          std::string(3000, 'x'),
          std::string(700, ' '),
          std::string(500, '\n'),
          "thethethetheandandandand"s + std::string(40, 'e')};
}

}  // namespace athanor::data
