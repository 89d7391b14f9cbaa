#include "data/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "data/proto_wire.h"
#include "data/utf8.h"

namespace athanor::data {
namespace {

using Wire = ProtoField::Wire;
constexpr size_t kMostPieces = size_t{1} << 24;
constexpr size_t kLongestPiece = 1 << 16;

std::string text_of(const ProtoField& field) { return std::string(field.bytes); }
bool flag_of(const ProtoField& field) { return field.value != 0; }
/// An int32 of proto2: negative numbers are stored as 64 bits.
int32_t int_of(const ProtoField& field) {
  return static_cast<int32_t>(static_cast<int64_t>(field.value));
}

/// Reads one message field by field; returns false when it is damaged.
template <class F>
bool for_each_field(std::string_view message, F&& take) {
  ProtoReader reader(message);
  while (const auto field = reader.next()) take(*field);
  return !reader.bad();
}

bool read_piece(std::string_view message, Piece& piece) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1 && field.wire == Wire::kBytes) piece.text = text_of(field);
    if (field.number == 2 && field.wire == Wire::kFixed32) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    }
    if (field.number == 3 && field.wire == Wire::kVarint) {
      piece.type = static_cast<PieceType>(std::min<uint64_t>(field.value, 255));
    }
  });
}

struct TrainerSpec {
  int32_t model_type = 1;
  std::string bos = "<s>";
  std::string eos = "</s>";
  std::string pad = "<pad>";
};

bool read_trainer_spec(std::string_view message, SentencePieceModel& model, TrainerSpec& spec) {
  return for_each_field(message, [&](const ProtoField& field) {
    switch (field.number) {
      case 3:
        spec.model_type = int_of(field);
        break;
      case 24:
        model.whitespace_as_suffix = flag_of(field);
        break;
      case 35:
        model.byte_fallback = flag_of(field);
        break;
      case 44:
        model.unk_surface = text_of(field);
        break;
      case 46:
        spec.bos = text_of(field);
        break;
      case 47:
        spec.eos = text_of(field);
        break;
      case 48:
        spec.pad = text_of(field);
        break;
      default:
        break;
    }
  });
}

bool read_normalizer_spec(std::string_view message, SentencePieceModel& model) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 2) model.normalizer_table = text_of(field);
    if (field.number == 3) model.add_dummy_prefix = flag_of(field);
    if (field.number == 4) model.remove_extra_whitespaces = flag_of(field);
    if (field.number == 5) model.escape_whitespaces = flag_of(field);
  });
}

/// Checks the normalizer's table: u32 size of a double-array trie
/// (https://github.com/s-yata/darts-clone, 32-bit units), the trie, then the replacements, each
/// ending with NUL. Every unit that a text can reach, and every replacement, must lie inside.
bool table_is_sound(std::string_view table) {
  uint32_t trie_bytes = 0;
  if (table.size() < 8) return false;
  std::memcpy(&trie_bytes, table.data(), 4);
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > table.size() - 4) return false;
  const std::string_view replacements = table.substr(4 + trie_bytes);
  if (replacements.empty() || replacements.back() != '\0') return false;
  std::vector<uint32_t> units(trie_bytes / 4);
  std::memcpy(units.data(), table.data() + 4, trie_bytes);
  std::vector<bool> seen(units.size(), false);
  std::vector<size_t> open = {0};
  seen[0] = true;
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    const uint32_t unit = units[at];
    const size_t base = at ^ (size_t{unit >> 10} << ((unit & (1u << 9)) >> 6));
    if ((base | 0xFF) >= units.size()) return false;  // any next byte must be answerable
    if ((unit >> 8 & 1) != 0) {
      const uint32_t leaf = units[base];
      if ((leaf & 0x7FFFFFFF) >= replacements.size()) return false;
    }
    for (size_t byte = 1; byte < 256; ++byte) {
      const size_t child = base ^ byte;
      if ((units[child] & 0x800000FF) == byte && !seen[child]) {
        seen[child] = true;
        open.push_back(child);
      }
    }
  }
  return valid_utf8_prefix(replacements) == replacements.size();
}

/// Finds the special ids, and what is wrong with the pieces (empty: nothing).
std::string check_pieces(SentencePieceModel& model, const TrainerSpec& spec) {
  std::unordered_set<std::string_view> texts;
  int bytes = 0;
  int normal = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const auto wrong = [&](const char* what) { return fmt::format("piece {} {}", id, what); };
    if (piece.text.empty()) return wrong("is empty");
    if (piece.text.size() > kLongestPiece) return wrong("is longer than 65,536 bytes");
    if (piece.text.find('\0') != std::string::npos) return wrong("holds a NUL");
    if (valid_utf8_prefix(piece.text) != piece.text.size()) return wrong("is not UTF-8");
    if (!texts.insert(piece.text).second) return wrong("is there twice");
    if (!std::isfinite(piece.score)) return wrong("has a score that is no number");
    const auto is = [&](const std::string& text) { return piece.text == text; };
    switch (piece.type) {
      case PieceType::kUnknown:
        if (model.special.unk >= 0) return wrong("is a second unknown piece");
        model.special.unk = static_cast<int32_t>(id);
        break;
      case PieceType::kControl:
        if (is(spec.bos)) model.special.bos = static_cast<int32_t>(id);
        if (is(spec.eos)) model.special.eos = static_cast<int32_t>(id);
        if (is(spec.pad)) model.special.pad = static_cast<int32_t>(id);
        break;
      case PieceType::kByte:
        if (byte_of(piece.text) < 0) return wrong("is no byte piece");
        ++bytes;
        break;
      case PieceType::kNormal:
        ++normal;
        break;
      case PieceType::kUserDefined:
      case PieceType::kUnused:
        break;
      default:
        return wrong("has a type that is not known");
    }
  }
  if (model.special.unk < 0) return "there is no unknown piece";
  if (normal == 0) return "there is no normal piece";
  if (model.byte_fallback && bytes != 256) return "the 256 byte pieces are not complete";
  if (!model.byte_fallback && bytes != 0) return "there are byte pieces without byte fallback";
  return {};
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& name) {
  const auto damaged = [&](const std::string& what) {
    return data_error(fmt::format("{}: a damaged SentencePiece model: {}", name, what));
  };
  SentencePieceModel model;
  model.unk_surface = " \xE2\x81\x87 ";  // the library's default, " ⁇ "
  TrainerSpec spec;
  bool sound = true;
  bool denormalizer = false;
  sound &= for_each_field(content, [&](const ProtoField& field) {
    if (field.wire != Wire::kBytes) return;
    if (field.number == 1 && model.pieces.size() < kMostPieces) {
      sound &= read_piece(field.bytes, model.pieces.emplace_back());
    }
    if (field.number == 2) sound &= read_trainer_spec(field.bytes, model, spec);
    if (field.number == 3) sound &= read_normalizer_spec(field.bytes, model);
    if (field.number == 5) {
      SentencePieceModel denormalizing;
      sound &= read_normalizer_spec(field.bytes, denormalizing);
      denormalizer |= !denormalizing.normalizer_table.empty();
    }
  });
  if (!sound) throw damaged("it is cut short or its bytes are changed");
  if (model.pieces.empty()) throw damaged("there are no pieces");
  if (spec.model_type != 1 && spec.model_type != 2) {
    throw data_error(fmt::format(
        "{}: a SentencePiece model of words or characters; unigram and bpe are supported", name));
  }
  if (denormalizer) {
    throw data_error(
        fmt::format("{}: a SentencePiece model with a denormalizer is not supported", name));
  }
  model.kind = spec.model_type == 1 ? TokenizerKind::kUnigram : TokenizerKind::kBpe;
  const std::string wrong = check_pieces(model, spec);
  if (!wrong.empty()) throw damaged(wrong);
  if (!model.normalizer_table.empty() && !table_is_sound(model.normalizer_table)) {
    throw damaged("its normalizer table points out of itself");
  }
  return model;
}

int byte_of(std::string_view piece) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const size_t high = kDigits.find(piece[3]);
  const size_t low = kDigits.find(piece[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * 16 + low);
}

bool looks_like_sentencepiece(std::string_view content) {
  // The first field is a piece: key 1, length-delimited, whose own first field is its text.
  ProtoReader reader(content.substr(0, std::min<size_t>(content.size(), 1 << 17)));
  const auto field = reader.next();
  if (!field || field->number != 1 || field->wire != Wire::kBytes) return false;
  ProtoReader piece(field->bytes);
  const auto text = piece.next();
  return text && text->number == 1 && text->wire == Wire::kBytes;
}

}  // namespace athanor::data
