import Air
import Common
import Crypto
import Hall
import Loop
import Store
import TestSupport
import Verifier

/// What outlives a kiosk's service: its state directory, on a simulated disk, and the wall clock of its machine.
@LoopActor
final class Cabinet {
  static let keepFor = Duration.seconds(7200)

  let disk = SimulatedDisk()
  private var time: VirtualTime?
  private var clockAtZero: Int64 = 1_700_000_000
  private var starts: UInt64 = 0

  init() { disk.placeDirectory("/state") }

  /// Seconds since 1970, as the machine tells them.
  var clock: Int64 { clockAtZero + (time?.now.nanoseconds ?? 0) / 1_000_000_000 }

  /// Somebody sets the wall clock, forth or back.
  func setClock(by seconds: Int64) { clockAtZero += seconds }

  /// Files of credentials.
  var files: [String] { disk.names(in: "/state/spool") }

  /// The service is killed, and so is the machine's power: what was not synced is lost.
  func crash() {
    clockAtZero = clock
    time = nil
    disk.restart(.everything)
  }

  /// The service starts, in an air of its own; nobody judges what it receives.
  func hall(seed: UInt64) throws -> Hall {
    starts += 1
    let state = try StateDirectory(path: "/state", on: disk)
    let key = try SpoolKey.load(from: state, environment: { _ in nil })
    // The names of files are in the journal, and must not be what a kiosk or a wallet draws for its key.
    let spool = try CredentialSpool(in: state, key: key, random: SeededRandom(seed: seed << 32 | starts))
    return Hall(
      seed: seed, conditions: Trial.quick, decision: .client,
      vault: { time in
        self.time = time
        return CredentialVault(
          spool, keepFor: Self.keepFor, scheduler: time, wallClock: { [weak self] in self?.clock ?? 0 })
      })
  }
}
