/// The handles that bluetoothd is asked to assign to this program's services: one of several blocks, used in rotation.
///
/// By itself bluetoothd assigns no handle twice, and from the 1,024th handle on its Database Hash no longer changes. Peers that compare the
/// hash then use their cached database forever. A different block changes the hash, so that peers discover the services again. The blocks
/// end 240 handles before the limit, which leaves these for other programs.
struct HandleBlock: Hashable, Sendable {
  /// Number of handles in a block, for all services of this program.
  static let size: UInt16 = 80
  static let count: UInt16 = 5
  /// The first handle, after those of bluetoothd's own services.
  private static let first: UInt16 = 0x0180

  private let number: UInt16

  /// - Parameter number: any number; it is taken modulo `count`.
  init(number: UInt16) {
    self.number = number % Self.count
  }

  /// A random block, which probably differs from that of the last run.
  static func random() -> HandleBlock { HandleBlock(number: .random(in: 0..<count)) }

  var next: HandleBlock { HandleBlock(number: number + 1) }

  /// The handle of a service at this offset.
  func handle(at offset: UInt16) -> UInt16 { Self.first + number * Self.size + offset }
}
