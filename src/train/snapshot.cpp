#include "train/snapshot.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "comm/agree.h"

namespace athanor::train {
namespace {

using nlohmann::json;

/// Calls `use` for every tensor of the optimizers.
template <class Use>
void for_optimizer_state(const Workspace& workspace, Use use) {
  for (const optim::StateTensor& tensor : workspace.optimizer.state()) use(tensor);
  for (const optim::StateTensor& tensor : workspace.controller.state()) use(tensor);
}

/// What `rank` writes: its pieces of the parameters and its optimizer state; the small things that all have are the first's.
std::vector<checkpoint::TensorSlice> owned_slices(const Workspace& workspace, int rank) {
  std::vector<checkpoint::TensorSlice> slices;
  for (const model::Parameter& parameter : workspace.parameters.all()) {
    const int64_t count = parameter.spec.numel();
    for (const optim::Piece& piece : workspace.partition.pieces()) {
      const int64_t begin = std::max(piece.begin - parameter.offset, int64_t{0});
      const int64_t end = std::min(piece.end - parameter.offset, count);
      if (piece.owner != rank || begin >= end) continue;
      slices.push_back({parameter.spec.name, parameter.spec.shape, begin,
                        workspace.masters.part(parameter.offset + begin, end - begin)});
    }
  }
  const auto add = [&](const optim::StateTensor& tensor) {
    slices.push_back({tensor.name, tensor.shape, tensor.begin, tensor.value});
  };
  std::ranges::for_each(workspace.optimizer.state(), add);
  if (rank == 0) {
    std::ranges::for_each(workspace.controller.state(), add);
    std::ranges::copy(checkpoint::bias_slices(workspace.parameters), std::back_inserter(slices));
  }
  return slices;
}

json to_json(const RunState& state) {
  const DivergenceGuard::State& guard = state.guard;
  return {{"applied_steps", state.applied},
          {"guard",
           {{"phase", guard.phase},
            {"good_steps", guard.good_steps},
            {"mean", guard.mean},
            {"variance", guard.variance},
            {"spikes", guard.spikes},
            {"skips", guard.skips},
            {"skipped", guard.skipped}}}};
}

json parse(const std::string& text, const char* key, const fs::path& path) {
  json value = json::parse(text, nullptr, false);
  if (!value.is_object()) {
    throw data_error(path.string() + ": manifest.json: " + key + " is not what a run wrote");
  }
  return value;
}

}  // namespace

fs::path save_snapshot(RunDirectory& directory, const Config& config, const RunState& state,
                       const Workspace& workspace, const model::ModelConfig& model,
                       const std::string& data_identity,
                       std::span<const checkpoint::SideFile> side_files,
                       comm::Communicator& communicator) {
  checkpoint::CheckpointInfo info;
  info.step = state.step;
  info.config = to_toml(config);
  info.data_cursor = json{{"data", data_identity},
                          {"offset_phase", state.offset_phase},
                          {"sample_offset", state.sample_offset}}
                         .dump();
  // Every random number is a function of the seed and a counter that the step gives.
  info.random_state = json{{"generator", "philox4x32-10"}, {"seed", config.seed}}.dump();
  info.state = to_json(state).dump();
  std::optional<checkpoint::CheckpointWriter> writer;
  const std::string temporary = comm::lead(communicator, [&] {
    directory.sync();  // a checkpoint never knows of steps whose metrics could still be lost
    writer.emplace(directory.checkpoints(), state.step);
    return writer->temporary().string();
  });
  checkpoint::RankRecord record;
  comm::agree(communicator, [&] {
    record = checkpoint::write_rank(temporary, communicator.rank(),
                                    owned_slices(workspace, communicator.rank()));
  });
  const std::vector<checkpoint::RankRecord> records = communicator.all_gather(record);
  return comm::lead(communicator,
                    [&] { return writer->commit(info, model, records, side_files).string(); });
}

int64_t load_optimizer_state(const checkpoint::Checkpoint& checkpoint, Workspace& workspace) {
  for_optimizer_state(workspace, [&](const optim::StateTensor& tensor) {
    checkpoint.read(tensor.name, tensor.begin, tensor.value);
  });
  try {
    return parse(checkpoint.manifest().state, "state", checkpoint.path())
        .at("applied_steps")
        .get<int64_t>();
  } catch (const json::exception& error) {
    throw data_error(checkpoint.path().string() + ": manifest.json: " + error.what());
  }
}

RunState load_snapshot(const checkpoint::Checkpoint& checkpoint, Workspace& workspace,
                       const std::string& data_identity) {
  const checkpoint::Manifest& manifest = checkpoint.manifest();
  RunState state;
  state.step = manifest.step;
  try {
    const json cursor = parse(manifest.data_cursor, "data_cursor", checkpoint.path());
    if (cursor.at("data").get<std::string>() != data_identity) {
      throw data_error(checkpoint.path().string() +
                       ": the run was trained on other data than is found now: restore its shards "
                       "or text");
    }
    state.offset_phase = cursor.at("offset_phase").get<int>();
    state.sample_offset = cursor.at("sample_offset").get<uint64_t>();
    const json kept = parse(manifest.state, "state", checkpoint.path());
    state.applied = kept.at("applied_steps").get<int64_t>();
    const json& guard = kept.at("guard");
    state.guard.phase = guard.at("phase").get<int>();
    state.guard.good_steps = guard.at("good_steps").get<int64_t>();
    state.guard.mean = guard.at("mean").get<double>();
    state.guard.variance = guard.at("variance").get<double>();
    state.guard.spikes = guard.at("spikes").get<int64_t>();
    state.guard.skips = guard.at("skips").get<int64_t>();
    state.guard.skipped = guard.at("skipped").get<int64_t>();
  } catch (const json::exception& error) {
    throw data_error(checkpoint.path().string() + ": manifest.json: " + error.what());
  }
  checkpoint.load(workspace.parameters);
  load_optimizer_state(checkpoint, workspace);
  return state;
}

}  // namespace athanor::train
