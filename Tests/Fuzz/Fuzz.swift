import Foundation

/// A decoder, and what it is to be fed. `scripts/fuzz` calls the program by the name of a target.
struct Target: Sendable {
  let name: String
  /// What to begin with: inputs that the decoder takes.
  let seeds: @Sendable () throws -> [[UInt8]]
  /// What inputs have to get the decoder to do. The short run of the tests fails where none of its inputs does.
  let goals: Set<String>
  /// Returns for whatever bytes, with the goals that it has reached; a trap, a report of the sanitizer and a broken promise
  /// are findings.
  let play: @Sendable (UnsafeRawBufferPointer) -> Set<String>

  init(
    name: String, seeds: @escaping @Sendable () throws -> [[UInt8]], goals: Set<String>,
    play: @escaping @Sendable (UnsafeRawBufferPointer) -> Set<String>
  ) {
    (self.name, self.seeds, self.goals, self.play) = (name, seeds, goals, play)
  }

  /// A decoder without goals: its seeds are what it takes.
  init(
    name: String, seeds: @escaping @Sendable () throws -> [[UInt8]],
    run: @escaping @Sendable (UnsafeRawBufferPointer) -> Void
  ) {
    self.init(name: name, seeds: seeds, goals: []) { bytes in
      run(bytes)
      return []
    }
  }

  static let all: [Target] =
    tuvali + checking + bitchat + bitchatPayloads + mesh + pblec + thali + asn + engines + noise + base + store + host
    + bus + strangers

  /// The one that the program's name says.
  static let chosen: Target? = {
    let name = Swift.CommandLine.arguments.first.flatMap { $0.split(separator: "/").last.map(String.init) }
    return all.first { $0.name == name }
  }()
}

/// Ends the process, and so is a finding, where a decoder breaks a promise.
func promise(_ isKept: Bool, _ sentence: String) {
  guard !isKept else { return }
  FileHandle.standardError.write(Data("A broken promise: \(sentence)\n".utf8))
  abort()
}

/// What was decoded; nil where it was refused. With which error is the unit tests' affair.
func taken<Value>(_ body: () throws -> Value) -> Value? { try? body() }

/// `FUZZ_LIST` prints the names, `FUZZ_SEEDS` writes the chosen target's seeds to that folder; neither fuzzes.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(_ count: UnsafeMutableRawPointer?, _ arguments: UnsafeMutableRawPointer?) -> Int32 {
  if getenv("FUZZ_LIST") != nil {
    for target in Target.all { print(target.name) }
    exit(0)
  }
  guard let target = Target.chosen else {
    FileHandle.standardError.write(Data("This program is called as a target is, and no target is called so.\n".utf8))
    exit(2)
  }
  guard let folder = getenv("FUZZ_SEEDS").map({ String(cString: $0) }) else { return 0 }
  do {
    for (number, seed) in try target.seeds().enumerated() {
      try Data(seed).write(to: URL(filePath: folder).appending(path: "seed-\(number)"))
    }
    exit(0)
  } catch {
    FileHandle.standardError.write(Data("The seeds cannot be written: \(error)\n".utf8))
    exit(1)
  }
}

@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  _ = Target.chosen?.play(UnsafeRawBufferPointer(start: bytes, count: count))
  return 0
}
