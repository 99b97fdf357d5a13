/// The handles that bluetoothd is asked to give the services of this program: one block after the other, then the first one again.
///
/// Left alone bluetoothd gives none out twice, and with the 1,024th its Database Hash stays as it is, so that peers which go by it
/// believe for ever what they remember. In another block than the one before the hash is another one, as it is to be when peers
/// shall look again; and the blocks end 240 before the limit, for what other programs register.
struct HandleBlock: Hashable, Sendable {
  /// Handles in a block: those of all services of this program.
  static let size: UInt16 = 80
  static let count: UInt16 = 5
  /// Behind those that bluetoothd gives its own services.
  private static let first: UInt16 = 0x0180

  private let number: UInt16

  /// - Parameter number: any; blocks are counted round.
  init(number: UInt16) {
    self.number = number % Self.count
  }

  /// Any block: that of an earlier run is likely to be another one.
  static func random() -> HandleBlock { HandleBlock(number: .random(in: 0..<count)) }

  var next: HandleBlock { HandleBlock(number: number + 1) }

  /// The first handle of a service.
  func handle(at offset: UInt16) -> UInt16 { Self.first + number * Self.size + offset }
}
