// athanor checkpoint inspect|verify|diff|export|import.
#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/counted.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/model_diff.h"
#include "checkpoint/model_transfer.h"
#include "checkpoint/open_model.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

checkpoint::OpenedModel open_model(const fs::path& path) {
  checkpoint::OpenedModel opened = checkpoint::open_model(path);
  for (const std::string& warning : opened.warnings) log::warning(warning);
  return opened;
}

/// The checkpoint that a path means: itself, or the latest valid one of a run.
checkpoint::Checkpoint open_checkpoint(const fs::path& path) {
  const checkpoint::OpenedModel opened = open_model(path);
  if (!opened.checkpoint) {
    throw data_error(path.string() + " is a model directory, not a checkpoint");
  }
  return checkpoint::Checkpoint::open(opened.directory);
}

/// The same, every byte proved. Unlike a reader of weights, it does not pass over damage to go on
/// with an older checkpoint.
checkpoint::Checkpoint verified(const fs::path& path) {
  const fs::path folder = path / "checkpoints";
  if (checkpoint::is_checkpoint(path) || !fs::is_directory(folder)) {
    checkpoint::Checkpoint opened = checkpoint::Checkpoint::open(path);
    opened.verify();
    return opened;
  }
  checkpoint::LatestCheckpoint latest = checkpoint::latest_valid(folder);
  if (!latest.damaged.empty()) throw data_error(latest.damaged.front().reason);
  if (!latest.checkpoint) throw data_error(folder.string() + ": no checkpoint in it yet");
  return std::move(*latest.checkpoint);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void add_inspect(CLI::App& group) {
  struct Options {
    fs::path path;
    bool json = false;
  };
  CLI::App* verb =
      add_verb(group, "inspect", "Show what a checkpoint holds", "checkpoint inspect runs/demo");
  auto options = std::make_shared<Options>();
  verb->add_option("CHECKPOINT", options->path, "Checkpoint, or run directory: its latest")
      ->required();
  add_json_flag(*verb, options->json);
  verb->callback([options] {
    const checkpoint::Checkpoint opened = open_checkpoint(options->path);
    const checkpoint::Manifest& manifest = opened.manifest();
    if (options->json) return print(checkpoint::inspect_json(manifest) + "\n");
    uint64_t bytes = 0;
    for (const checkpoint::StoredFile& file : manifest.files) bytes += file.bytes;
    print(fmt::format("{}\nstep {}, {}, {}, {}\n", opened.path().string(), manifest.step,
                      counted(static_cast<uint64_t>(manifest.ranks), "rank"),
                      counted(manifest.files.size(), "file"), size_text(bytes)));
    for (const checkpoint::StoredTensor& tensor : manifest.tensors) {
      print(fmt::format("{:<5}{:<22}{}\n", name_of(tensor.dtype), shape_text(tensor.shape),
                        tensor.name));
    }
  });
}

void add_verify(CLI::App& group) {
  CLI::App* verb =
      add_verb(group, "verify", "Check every byte of a checkpoint", "checkpoint verify runs/demo");
  auto path = std::make_shared<fs::path>();
  verb->add_option("CHECKPOINT", *path, "Checkpoint, or run directory: its latest")->required();
  verb->callback([path] {
    const checkpoint::Checkpoint opened = verified(*path);
    print(opened.path().string() + ": every byte is as it was written\n");
  });
}

constexpr const char* kModelHelp = "Model directory of either layout, checkpoint, or run directory";

void add_diff(CLI::App& group) {
  struct Options {
    fs::path a, b;
    bool json = false;
  };
  CLI::App* verb =
      add_verb(group, "diff", "Say which tensors of two models differ, and by how much",
               "checkpoint diff runs/demo demo-model --json");
  auto options = std::make_shared<Options>();
  verb->add_option("A", options->a, kModelHelp)->required();
  verb->add_option("B", options->b, "The other")->required();
  add_json_flag(*verb, options->json);
  verb->callback([options] {
    const checkpoint::ModelDifference difference =
        checkpoint::diff_models(open_model(options->a), open_model(options->b));
    print(options->json ? checkpoint::to_json(difference) + "\n" : checkpoint::to_text(difference));
  });
}

void add_export(CLI::App& group) {
  struct Options {
    fs::path model, out;
    std::string layout = "native";
    std::string dtype;
    std::string shard_size = "5GB";
  };
  CLI::App* verb =
      add_verb(group, "export", "Write a model directory that Hugging Face, vLLM and SGLang load",
               "checkpoint export runs/demo demo-model --dtype fp32");
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->model, kModelHelp)->required();
  verb->add_option("DIR", options->out, "The model directory to write")->required();
  verb->add_option("--layout", options->layout,
                   "Of the weights: native, or legacy as ZAYA1-8B-legacy")
      ->check(CLI::IsMember({"native", "legacy"}))
      ->capture_default_str();
  verb->add_option(
          "--dtype", options->dtype,
          "Of the stored weights: bf16 or fp32 (default: a model directory's own, bf16 of a "
          "checkpoint)")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  verb->add_option("--shard-size", options->shard_size, "A file holds at most so much")
      ->capture_default_str();
  verb->callback([options] {
    checkpoint::TransferOptions how;
    how.layout =
        options->layout == "legacy" ? checkpoint::Layout::kLegacy : checkpoint::Layout::kNative;
    if (!options->dtype.empty()) how.dtype = options->dtype == "bf16" ? DType::kBF16 : DType::kF32;
    how.shard_bytes = checkpoint::parse_shard_size(options->shard_size);
    const checkpoint::OpenedModel opened = open_model(options->model);
    const DType dtype = checkpoint::export_opened(opened, options->out, how);
    print(fmt::format("{} now holds {} in the {} layout, {}\n", options->out.string(),
                      opened.directory.string(), options->layout,
                      dtype == DType::kBF16 ? "bf16" : "fp32"));
  });
}

void add_import(CLI::App& group) {
  struct Options {
    fs::path model, out;
  };
  CLI::App* verb =
      add_verb(group, "import", "Make a checkpoint of a model that comes from elsewhere",
               "checkpoint import ZAYA1-8B-legacy imported");
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->model, kModelHelp)->required();
  verb->add_option("DIR", options->out, "The checkpoint to write")->required();
  verb->callback([options] {
    const checkpoint::OpenedModel opened = open_model(options->model);
    const DType dtype = checkpoint::import_opened(opened, options->out);
    print(fmt::format("{} now holds {} as a checkpoint, {}\n", options->out.string(),
                      opened.directory.string(), dtype == DType::kBF16 ? "bf16" : "fp32"));
  });
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App* group =
      add_group(app, "checkpoint", "Inspect, verify and compare checkpoints; models in and out");
  add_inspect(*group);
  add_verify(*group);
  add_diff(*group);
  add_export(*group);
  add_import(*group);
}

}  // namespace athanor::cli
