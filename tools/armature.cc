// armature: the command line. `armature --help` lists the commands, `armature COMMAND --help` their options.
#include <iostream>

#include "CLI/CLI.hpp"
#include "armature/base/posix_file_system.h"
#include "armature/tools/bench_ops.h"
#include "armature/tools/bench_train.h"
#include "armature/tools/commands.h"

namespace armature {
namespace {

// Runs the command that was chosen; 1 on an error, which is one line on stderr.
template <typename Command>
void Register(CLI::App* app, Command& command, int& exit_code) {
  app->callback([app, &command, &exit_code] {
    PosixFileSystem files;
    const absl::Status status = Run(command, files);
    if (status.ok()) return;
    std::cerr << "armature " << app->get_name() << ": " << status.message() << std::endl;
    exit_code = 1;
  });
}

CLI::App* AddPrepare(CLI::App& app, PrepareCommand& command) {
  CLI::App* prepare =
      app.add_subcommand("prepare", "Makes token files of text files, a token for each byte.");
  prepare->add_option("input", command.inputs, "Text files, in order")->required();
  prepare->add_option("--train", command.train_path, "Token file to write")->required();
  prepare->add_option("--validation", command.validation_path, "Token file for the last part of the text");
  prepare->add_option("--validation-fraction", command.validation_fraction, "Share of the last part")
      ->capture_default_str();
  return prepare;
}

CLI::App* AddTrain(CLI::App& app, TrainCommand& command) {
  CLI::App* train =
      app.add_subcommand("train", "Trains a model, from its newest checkpoint if there is one.");
  train->add_option("--config", command.config_path, "Configuration: protobuf text of TrainConfig")
      ->required();
  train->add_option("--set", command.assignments, "Overrides a field: path.to.field=value");
  train->add_flag("--fresh", command.fresh, "Refuse to go on from a checkpoint");
  return train;
}

CLI::App* AddSample(CLI::App& app, SampleCommand& command) {
  CLI::App* sample = app.add_subcommand("sample", "Continues a prompt with the newest checkpoint's model.");
  sample->add_option("--config", command.config_path, "The configuration of the training")->required();
  sample->add_option("--set", command.assignments, "Overrides a field: path.to.field=value");
  sample->add_option("--prompt", command.prompt, "Text to continue");
  sample->add_option("--length", command.length, "Tokens to draw")->capture_default_str();
  sample->add_option("--temperature", command.temperature, "0 takes the likeliest token")
      ->capture_default_str();
  sample->add_option("--top-k", command.top_k, "Draw among the k likeliest; 0: all")->capture_default_str();
  sample->add_option("--seed", command.seed, "Of the draws")->capture_default_str();
  return sample;
}

CLI::App* AddBenchTrain(CLI::App& bench, BenchTrainCommand& command) {
  CLI::App* train =
      bench.add_subcommand("train", "Times training steps against the matrix products in them.");
  train->add_option("--preset", command.preset, "gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1558m or gpt2-tiny")
      ->capture_default_str();
  train->add_option("--batch", command.batch, "Samples of a step")->capture_default_str();
  train->add_option("--seq", command.sequence, "Positions of a sample")->capture_default_str();
  train->add_option("--threads", command.threads, "Threads; 0: the machine's")->capture_default_str();
  train->add_option("--steps", command.steps, "Steps to time")->capture_default_str();
  train->add_option("--dropout", command.dropout, "As in the model's config")->capture_default_str();
  train->add_flag("--json", command.json, "Print one JSON object");
  return train;
}

CLI::App* AddBenchOps(CLI::App& bench, BenchOpsCommand& command) {
  CLI::App* ops = bench.add_subcommand("ops", "Times each kernel against a copy and a matrix product.");
  ops->add_option("--tokens", command.tokens, "Rows")->capture_default_str();
  ops->add_option("--threads", command.threads, "Threads; 0: the machine's")->capture_default_str();
  ops->add_flag("--json", command.json, "Print a JSON object a line");
  return ops;
}

int Main(int argc, char** argv) {
  CLI::App app{"Armature trains models on this machine."};
  app.require_subcommand(1);
  int exit_code = 0;
  PrepareCommand prepare;
  Register(AddPrepare(app, prepare), prepare, exit_code);
  TrainCommand train;
  Register(AddTrain(app, train), train, exit_code);
  SampleCommand sample;
  Register(AddSample(app, sample), sample, exit_code);
  CLI::App* bench = app.add_subcommand("bench", "Measures speed and memory.");
  bench->require_subcommand(1);
  BenchTrainCommand bench_train;
  Register(AddBenchTrain(*bench, bench_train), bench_train, exit_code);
  BenchOpsCommand bench_ops;
  Register(AddBenchOps(*bench, bench_ops), bench_ops, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return exit_code;
}

}  // namespace
}  // namespace armature

int main(int argc, char** argv) { return armature::Main(argc, argv); }
