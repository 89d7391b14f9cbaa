// athanor checkpoint inspect|verify|export.
#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/counted.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/open_model.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

/// The checkpoint that a path means: itself, or the latest valid one of a run.
checkpoint::Checkpoint open_checkpoint(const fs::path& path) {
  const checkpoint::OpenedModel opened = checkpoint::open_model(path);
  for (const std::string& warning : opened.warnings) log::warning(warning);
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

void add_export(CLI::App& group) {
  struct Options {
    fs::path path, out;
    std::string dtype = "bf16";
  };
  CLI::App* verb =
      add_verb(group, "export", "Write a model directory that Hugging Face, vLLM and SGLang load",
               "checkpoint export runs/demo demo-model --dtype fp32");
  auto options = std::make_shared<Options>();
  verb->add_option("CHECKPOINT", options->path, "Checkpoint, or run directory: its latest")
      ->required();
  verb->add_option("DIR", options->out, "The model directory to write")->required();
  verb->add_option("--dtype", options->dtype, "Of the stored weights: bf16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
  verb->callback([options] {
    checkpoint::ExportOptions how;
    how.dtype = options->dtype == "bf16" ? DType::kBF16 : DType::kF32;
    const checkpoint::Checkpoint opened = open_checkpoint(options->path);
    checkpoint::export_checkpoint(opened, options->out, how);
    print(fmt::format("{} now holds step {} of {}\n", options->out.string(), opened.step(),
                      opened.path().string()));
  });
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App* group = add_group(app, "checkpoint", "Inspect, verify and export checkpoints");
  add_inspect(*group);
  add_verify(*group);
  add_export(*group);
}

}  // namespace athanor::cli
