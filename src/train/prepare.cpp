#include "train/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/log.h"
#include "checkpoint/open_model.h"
#include "data/documents.h"
#include "data/pack.h"
#include "data/split.h"
#include "data/tokenizer_export.h"
#include "data/tokenizer_train.h"

namespace athanor::train {
namespace {

/// One place of text, and which of its documents are held out.
struct TextSource {
  size_t number;  ///< among all sources
  data::DocumentFiles files;
  std::vector<bool> held_out;
};

/// Several walks, one after the other.
class ChainedReader final : public data::DocumentReader {
 public:
  explicit ChainedReader(std::vector<std::unique_ptr<data::DocumentReader>> readers)
      : readers_(std::move(readers)) {}
  bool next(data::Document& document) override {
    for (; at_ < readers_.size(); ++at_) {
      if (readers_[at_]->next(document)) return true;
    }
    return false;
  }
  std::string origin() const override {
    return readers_.empty() ? "no data" : readers_.front()->origin();
  }

 private:
  std::vector<std::unique_ptr<data::DocumentReader>> readers_;
  size_t at_ = 0;
};

std::unique_ptr<data::DocumentReader> documents(std::span<const TextSource> sources,
                                                bool held_out) {
  std::vector<std::unique_ptr<data::DocumentReader>> readers;
  for (const TextSource& source : sources) {
    readers.push_back(data::select_documents(source.files.read(), source.held_out, held_out));
  }
  return std::make_unique<ChainedReader>(std::move(readers));
}

TextSource split_text(const Config& config, size_t number, const std::string& path) {
  data::DocumentFiles files(path);
  const std::vector<uint64_t> sizes = data::document_sizes(*files.read());
  if (std::all_of(sizes.begin(), sizes.end(), [](uint64_t size) { return size == 0; })) {
    throw data::no_text_error(path);
  }
  files.warn_ignored();
  std::vector<bool> held_out = data::choose_held_out(
      sizes, static_cast<uint64_t>(config.data.heldout_seed), config.data.heldout);
  if (config.data.heldout > 0 &&
      std::find(held_out.begin(), held_out.end(), true) == held_out.end()) {
    log::warning(fmt::format(
        "{}: too few documents to hold any out, so there is no validation; cut the text into more "
        "(lines that are <|endoftext|> do)",
        path));
  }
  return {number, std::move(files), std::move(held_out)};
}

/// What kind a tokenizer has that is trained as the config says.
data::TokenizerKind loaded_kind(TokenizerKind kind) {
  return kind == TokenizerKind::kUnigram ? data::TokenizerKind::kUnigram
                                         : data::TokenizerKind::kBpe;
}

/// The `tokenizer.kind` that goes with a pack's tokenizer.
const char* fitting_kind(data::TokenizerKind kind) {
  switch (kind) {
    case data::TokenizerKind::kBytes:
      return "bytes";
    case data::TokenizerKind::kUnigram:
      return "unigram";
    default:
      return "byte-level";
  }
}

/// The tokenizer that does not have to be trained: the run's own, that of the model it starts from, raw bytes, a file, or
/// that of a pack. Null when it has to be.
std::shared_ptr<const data::Tokenizer> existing_tokenizer(const Config& config,
                                                          const RunDirectory& directory,
                                                          std::span<const std::string> packs) {
  if (data::holds_tokenizer(directory.tokenizer())) {
    return data::load_tokenizer(directory.tokenizer());
  }
  if (!config.run.init.empty()) {
    const fs::path model = checkpoint::open_model(config.run.init).directory;
    if (data::holds_tokenizer(model)) return data::load_tokenizer(model);
  }
  switch (config.tokenizer.kind) {
    case TokenizerKind::kBytes:
      return data::make_byte_tokenizer();
    case TokenizerKind::kFile:
      return data::load_tokenizer(config.tokenizer.path);
    default:
      break;
  }
  if (packs.empty()) return nullptr;
  std::shared_ptr<const data::Tokenizer> tokenizer = data::load_tokenizer(packs.front());
  if (tokenizer->kind() != loaded_kind(config.tokenizer.kind)) {
    throw data_error(fmt::format(
        "{} was packed with a {} tokenizer, the config's tokenizer.kind is another: "
        "set it to \"{}\"",
        packs.front(), data::name_of(tokenizer->kind()), fitting_kind(tokenizer->kind())));
  }
  return tokenizer;
}

std::shared_ptr<const data::Tokenizer> train_tokenizer(const Config& config,
                                                       std::span<const TextSource> sources,
                                                       const Threads& threads) {
  log::note(fmt::format("training a tokenizer of {} pieces", config.tokenizer.vocab));
  data::TokenizerTraining training;
  training.kind = static_cast<data::TrainedKind>(static_cast<int>(config.tokenizer.kind) -
                                                 static_cast<int>(TokenizerKind::kByteLevel));
  training.vocab_size = static_cast<int32_t>(config.tokenizer.vocab);
  training.seed = static_cast<uint64_t>(config.seed);
  return data::train_tokenizer(*documents(sources, false), training, threads);
}

void pack_text(const Config& config, RunDirectory& directory,
               const std::vector<TextSource>& sources, const data::Tokenizer& tokenizer,
               const Threads& threads, const std::function<void()>& stop) {
  for (const TextSource& source : sources) {
    const fs::path out = directory.shards(source.number);
    log::note("packing " + out.string());
    data::PackOptions options;
    options.bos = config.data.bos;
    options.eos = config.data.eos;
    options.held_out = source.held_out;
    const auto reader = source.files.read();
    const data::PackIndex index = data::pack(*reader, tokenizer, options, out, threads);
    directory.event("text packed", 0,
                    {{"shards", out.filename().string()},
                     {"documents", index.documents(data::Split::kTrain)},
                     {"tokens", index.tokens(data::Split::kTrain)},
                     {"bytes", index.text_bytes(data::Split::kTrain)},
                     {"heldout_documents", index.documents(data::Split::kHeldOut)},
                     {"heldout_bytes", index.text_bytes(data::Split::kHeldOut)}});
    stop();
  }
  // Last: it says that all of this is done.
  data::write_jsonl(*documents(sources, true), directory.held_out());
}

/// The checksum of the checksums of all training shards: each covers every byte of its shard.
std::string identity_of(const std::vector<fs::path>& packs) {
  std::string all;
  for (const fs::path& pack : packs) {
    for (const data::ShardEntry& shard : data::read_pack_index(pack).train) all += shard.checksum;
    all += ';';
  }
  return Checksum::of(all.data(), all.size());
}

}  // namespace

std::vector<std::string> source_paths(const Config& config) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& path) {
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  };
  for (const Phase& phase : config.phases) {
    if (phase.sources.empty()) add(config.data.path);
    for (const Source& source : phase.sources) add(source.path);
  }
  return paths;
}

PreparedData prepare_data(const Config& config, RunDirectory& directory, bool checkpointed,
                          const Threads& threads, const std::function<void()>& stop) {
  const std::vector<std::string> paths = source_paths(config);
  const bool prepared = fs::exists(directory.held_out());
  const auto packed_here = [&](size_t i) {
    return (prepared || checkpointed) && data::is_pack(directory.shards(i));
  };
  std::vector<std::string> packs;
  std::vector<TextSource> text;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].empty() && data::is_pack(paths[i])) {
      packs.push_back(paths[i]);
    } else if (!packed_here(i)) {
      if (paths[i].empty()) {
        throw usage_error(
            "no data to train on: name text or shards with --data PATH (or data.path)");
      }
      text.push_back(split_text(config, i, paths[i]));
    }
  }
  stop();

  PreparedData prepared_data;
  prepared_data.tokenizer = existing_tokenizer(config, directory, packs);
  if (!prepared_data.tokenizer) {
    if (!config.run.init.empty()) {
      log::warning(
          config.run.init +
          " holds no tokenizer, so one is trained on the text, whose ids are not those that "
          "the model has learned: copy the model's own into it");
    }
    prepared_data.tokenizer = train_tokenizer(config, text, threads);
    stop();
  }
  const data::Tokenizer& tokenizer = *prepared_data.tokenizer;
  require_room(config, tokenizer.vocab_size());  // before hours go into packing
  if (directory.leads()) {
    make_directories(directory.tokenizer());
    data::export_tokenizer(tokenizer, directory.tokenizer());
  }
  if (!text.empty()) pack_text(config, directory, text, tokenizer, threads, stop);

  std::map<std::string, std::shared_ptr<const data::TokenSource>> opened;
  std::vector<fs::path> places;
  for (size_t i = 0; i < paths.size(); ++i) {
    const bool elsewhere = !paths[i].empty() && data::is_pack(paths[i]);
    const fs::path place = elsewhere ? fs::path(paths[i]) : directory.shards(i);
    const data::PackIndex index = data::read_pack_index(place);
    data::require_tokenizer(index, tokenizer, place);
    places.push_back(place);
    opened[paths[i]] = data::open_pack(place);
    if (!index.held_out.empty()) {
      prepared_data.held_out.push_back(data::open_pack(place, data::Split::kHeldOut));
    }
  }
  prepared_data.identity = identity_of(places);
  for (const Phase& phase : config.phases) {
    data::PhaseData& out = prepared_data.phases.emplace_back();
    out.sequence_length = phase.sequence;
    if (phase.sources.empty()) out.sources.push_back({opened.at(config.data.path), 1.0});
    for (const Source& source : phase.sources) {
      out.sources.push_back({opened.at(source.path), source.weight});
    }
  }
  return prepared_data;
}

void discard_prepared(const Config& config, RunDirectory& directory) {
  std::error_code ignored;
  fs::remove(directory.held_out(), ignored);  // first: nothing counts as prepared any more
  fs::remove_all(directory.tokenizer(), ignored);
  for (size_t i = 0; i < source_paths(config).size(); ++i) {
    fs::remove_all(directory.shards(i), ignored);
  }
}

void require_room(const Config& config, int64_t tokenizer_vocab) {
  if (config.model.vocab == kAuto || config.model.vocab >= tokenizer_vocab) return;
  throw usage_error(
      fmt::format("model.vocab: {} is less than the tokenizer's {} ids; \"auto\" takes its number",
                  config.model.vocab, tokenizer_vocab));
}

int64_t expected_vocab(const Config& config) {
  if (!config.run.init.empty()) return checkpoint::open_model(config.run.init).config.vocab;
  const bool automatic = config.model.vocab == kAuto;
  if (config.tokenizer.kind == TokenizerKind::kBytes) {
    return data::make_byte_tokenizer()->vocab_size();
  }
  if (config.tokenizer.kind != TokenizerKind::kFile) {
    return automatic ? config.tokenizer.vocab : config.model.vocab;
  }
  // A plan of a model whose tokenizer lies elsewhere needs no more than model.vocab.
  std::error_code ignored;
  const bool absent = !fs::exists(config.tokenizer.path, ignored);
  return absent && !automatic ? config.model.vocab
                              : data::load_tokenizer(config.tokenizer.path)->vocab_size();
}

}  // namespace athanor::train
