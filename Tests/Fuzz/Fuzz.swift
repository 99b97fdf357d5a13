import Foundation

/// A decoder with its inputs. `scripts/fuzz` calls the program by the name of a target.
struct Target: Sendable {
  let name: String
  /// Initial inputs, which the decoder accepts.
  let seeds: @Sendable () throws -> [[UInt8]]
  /// Results that the inputs must reach. The short run in the tests fails for a goal that no input reaches.
  let goals: Set<String>
  /// Decodes any bytes, and returns the goals that it has reached; a trap, a report of the sanitizer and a broken
  /// invariant are findings.
  let play: @Sendable (UnsafeRawBufferPointer) -> Set<String>

  init(
    name: String, seeds: @escaping @Sendable () throws -> [[UInt8]], goals: Set<String>,
    play: @escaping @Sendable (UnsafeRawBufferPointer) -> Set<String>
  ) {
    (self.name, self.seeds, self.goals, self.play) = (name, seeds, goals, play)
  }

  /// A decoder without goals: it accepts its seeds.
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
    tuvali + checking + bitchat + bitchatPayloads + mesh + pblec + thali + asn + nostr + social + engines + noise + base
    + store + host + bus + strangers

  /// The target with the program's name.
  static let chosen: Target? = {
    let name = Swift.CommandLine.arguments.first.flatMap { $0.split(separator: "/").last.map(String.init) }
    return all.first { $0.name == name }
  }()
}

/// Ends the process, which is a finding, when an invariant does not hold.
func promise(_ isKept: Bool, _ sentence: String) {
  guard !isKept else { return }
  FileHandle.standardError.write(Data("A broken promise: \(sentence)\n".utf8))
  abort()
}

/// The decoded value; nil where it was refused. The unit tests check the errors.
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
