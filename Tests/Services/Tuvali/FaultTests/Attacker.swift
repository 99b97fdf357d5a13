import Common
import Hall
import Loop
import Tuvali

/// An attacker that blocks other wallets, with one radio or several. Each radio has as many links as a usual
/// controller, each from an address of its own. It replaces a link as soon as the link is closed.
@LoopActor
final class Attacker {
  enum Strategy: String, CaseIterable, Sendable {
    /// Identifies itself, and sends nothing more.
    case silent
    /// A silent attacker that reconnects from a new address each time.
    case silentNewAddresses = "silent, ever-new addresses"
    /// Announces a credential and sends a chunk a minute.
    case byteAMinute = "a byte a minute"
    /// Sends somewhat less than 2 kB a second.
    case slow = "slow sender"
    /// Sends as fast as an honest phone, without end.
    case fast = "fast sender"
    /// Identifies itself, disconnects, and returns at once from a new address.
    case cycling = "ever-new addresses"
  }

  static let linksOfRadio = 8
  private static let step = Duration.milliseconds(300)
  private static let mtu = 517
  private static let size = 4_000_000
  private static let chunker = try? Chunker(
    frame: [UInt8](repeating: 0, count: size), layout: ChunkLayout(mtu: mtu), firstSequence: 1)

  private final class Line {
    let phone: Phone
    var triedAt: Instant
    var since: Instant?
    var chunks = 0

    init(_ phone: Phone, at now: Instant) {
      self.phone = phone
      triedAt = now
    }
  }

  private let hall: Hall
  private let strategy: Strategy
  private var lines: [Line] = []
  private var timer: Registration?

  init(in hall: Hall, _ strategy: Strategy, radios: Int) {
    self.hall = hall
    self.strategy = strategy
    for _ in 0..<radios * Self.linksOfRadio { lines.append(newLine()) }
    act()
  }

  /// Ends the attack.
  func stop() { timer = nil }

  private func newLine() -> Line {
    let phone = Phone(in: hall)
    _ = try? phone.identify(mtu: Self.mtu)
    return Line(phone, at: hall.time.now)
  }

  private func act() {
    for index in lines.indices { act(index) }
    timer = hall.time.schedule(after: Self.step) { [weak self] in self?.act() }
  }

  private func act(_ index: Int) {
    let (line, now) = (lines[index], hall.time.now)
    guard line.phone.isConnected else {
      guard line.since != nil || line.triedAt.advanced(by: .seconds(1)) <= now else { return }
      if strategy == .silentNewAddresses {
        line.phone.vanish()
        lines[index] = newLine()
        return
      }
      (line.triedAt, line.since, line.chunks) = (now, nil, 0)
      line.phone.forget()
      _ = try? line.phone.identify(mtu: Self.mtu)
      return
    }
    let stay = (line.since ?? now).duration(to: now)
    if line.since == nil {
      line.since = now
      if ![.silent, .silentNewAddresses, .cycling].contains(strategy) {
        line.phone.write(ResponseSize(Self.size).bytes(as: .bigEndian), to: .responseSize, as: .command)
      }
    }
    switch strategy {
    case .silent, .silentNewAddresses: break
    // In 300 ms: 505 bytes, or five times as many.
    case .byteAMinute: if stay >= .seconds(60 * line.chunks) { send(1, of: line) }
    case .slow: send(1, of: line)
    case .fast: send(5, of: line)
    case .cycling:
      line.phone.leave()
      line.phone.vanish()
      lines[index] = newLine()
    }
  }

  private func send(_ count: Int, of line: Line) {
    for _ in 0..<count {
      line.chunks += 1
      if let chunk = Self.chunker?.chunk(line.chunks) { line.phone.write(chunk, to: .submitResponse, as: .command) }
    }
    line.phone.forget()
  }
}
