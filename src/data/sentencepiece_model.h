// What a SentencePiece model file says (sentencepiece_model.proto, proto2 wire format). The library
// loads the same file; this reader exists because the library's headers do not show piece types,
// and because it trusts the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace athanor::data {

enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SentencePieceModel {
  std::vector<Piece> pieces;  // by id
  TokenizerKind kind = TokenizerKind::kUnigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string unk_surface;  // what <unk> decodes to
  std::string normalizer_table;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  SpecialIds special;

  /// True when encoding changes nothing but " " to "▁".
  bool keeps_text() const {
    return normalizer_table.empty() && !add_dummy_prefix && !remove_extra_whitespaces &&
           escape_whitespaces && !whitespace_as_suffix;
  }
};

/// Parses and checks a model file. data_error "`name`: …" when it is damaged, or has what the
/// library could not be given safely: pieces that are empty, double or not UTF-8, scores that are
/// no numbers, an incomplete set of bytes, no or several unknown pieces, a normalizer table with
/// jumps out of itself, a model of words or characters.
SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& name);

/// The byte that a piece "<0x0A>" stands for; −1 for any other spelling.
int byte_of(std::string_view piece);

/// True when `content` begins as a SentencePiece model file does.
bool looks_like_sentencepiece(std::string_view content);

}  // namespace athanor::data
