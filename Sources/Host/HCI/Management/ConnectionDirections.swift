import Radio

/// Which end made each LE link of one controller, from Device Connected on the management socket and from
/// HCIGETCONNLIST.
///
/// Callers use it to decide whether to end a link. If neither source provides the direction, it is unknown, and the
/// link should not be ended.
public struct ConnectionDirections: Sendable {
  public enum Direction: Hashable, Sendable {
    /// The peer connected to us.
    case incoming
    /// We connected to the peer.
    case outgoing
    case unknown
  }

  /// The first kernel that sets the flag of Device Connected for links that this machine made (commit 1c6ed31b1696).
  static let firstKernelWithFlag = KernelVersion(5, 14, 0)
  /// Maximum links, more than any controller supports; the direction of further ones is unknown.
  static let limit = HCILink.limit

  private let eventsTell: Bool
  private var directions: [BluetoothAddress: Direction] = [:]

  /// - Parameter kernel: the running kernel; nil if unknown. Before 5.14 the events of all links are equal, so only the
  ///   flag itself and HCIGETCONNLIST count.
  public init(kernel: KernelVersion? = .running) {
    eventsTell = kernel.map { $0 >= Self.firstKernelWithFlag } ?? false
  }

  /// Returns whether this machine or the peer at `address` initiated their link; `.unknown` without a link.
  public func direction(of address: BluetoothAddress) -> Direction { directions[address] ?? .unknown }

  /// Handles an event of the management socket about this controller.
  public mutating func heard(_ event: ManagementEvent) {
    switch event {
    case .deviceConnected(let link) where link.kind.isLE:
      set(link.address, link.isInitiatedHere ? .outgoing : eventsTell ? .incoming : .unknown)
    case .deviceDisconnected(let link) where link.kind.isLE: directions[link.address] = nil
    case .indexRemoved: directions = [:]
    case .newSettings(let settings) where !settings.contains(.powered): directions = [:]
    default: break
    }
  }

  /// Records the kernel's complete list of this controller's links, and forgets the links that are not in the list.
  public mutating func found(_ links: [HCILink]) {
    directions = [:]
    for link in links where link.isLE && link.isConnected {
      // The central makes an LE link. If the kernel reports otherwise, or reports two links with one address, the
      // direction is unknown.
      let isKnown = link.isOutgoing == link.isCentral && directions[link.address] == nil
      set(link.address, !isKnown ? .unknown : link.isOutgoing ? .outgoing : .incoming)
    }
  }

  private mutating func set(_ address: BluetoothAddress, _ direction: Direction) {
    if directions.count < Self.limit || directions[address] != nil { directions[address] = direction }
  }
}
