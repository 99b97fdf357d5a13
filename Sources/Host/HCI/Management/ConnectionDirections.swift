import Radio

/// Which end made each LE link of one controller, as far as the kernel says: by Device Connected on the management socket,
/// and by HCIGETCONNLIST.
///
/// It is a caller's reason to cut a link or to leave it alone; where the two sources do not tell, the direction is
/// unknown, and a link should then be left alone.
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
  /// More links than a controller has; the direction of those above it is unknown.
  static let limit = HCILink.limit

  private let eventsTell: Bool
  private var directions: [BluetoothAddress: Direction] = [:]

  /// - Parameter kernel: the kernel that runs; nil where that is not known. Before 5.14 the events of all links look
  ///   alike, so that only the flag itself and HCIGETCONNLIST count.
  public init(kernel: KernelVersion? = .running) {
    eventsTell = kernel.map { $0 >= Self.firstKernelWithFlag } ?? false
  }

  /// Which end made the link with the peer at `address`; unknown where there is no such link.
  public func direction(of address: BluetoothAddress) -> Direction { directions[address] ?? .unknown }

  /// Takes in an event of the management socket about this controller.
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

  /// Takes in the kernel's list of all links of this controller, which is in force until the next event: it forgets links
  /// that are not in it.
  public mutating func found(_ links: [HCILink]) {
    directions = [:]
    for link in links where link.isLE && link.isConnected {
      // An LE link is made by its central. A kernel that says otherwise, or has two links with one address, does not tell.
      let isKnown = link.isOutgoing == link.isCentral && directions[link.address] == nil
      set(link.address, !isKnown ? .unknown : link.isOutgoing ? .outgoing : .incoming)
    }
  }

  private mutating func set(_ address: BluetoothAddress, _ direction: Direction) {
    if directions.count < Self.limit || directions[address] != nil { directions[address] = direction }
  }
}
