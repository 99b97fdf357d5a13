import BitchatWire
import Common
import Crypto
import Noise

/// Device at the other end of a link: its Bluetooth address, or the link itself if the address is unknown.
///
/// Shares of limited resources are counted by origin, because a sender can use any name and generate any number of
/// identities. A device that changes its address, or has several radios, has several origins.
public struct DeviceOrigin: Hashable, Comparable, Sendable {
  private enum Kind: Hashable, Sendable {
    case address(UInt64)
    case link(UInt64)
  }

  private let kind: Kind

  /// - Parameter address: the address of the device at the other end.
  public init(address: UInt64) { kind = .address(address) }

  init(_ link: LinkID) { kind = .link(link.number) }

  /// Number that identifies the origin, never 0. Addresses take 48 bits.
  var number: UInt64 {
    switch kind {
    case .address(let address): 1 << 63 | address
    case .link(let link): 1 << 62 | link
    }
  }

  var source: MessageSource { MessageSource(number) }

  /// The mark of the origin in stored records: four bytes of a hash, so that no address is stored. It is the same after
  /// a restart.
  ///
  /// - Parameter node: the node that stores the mark. Nodes have different marks for one origin.
  func mark(for node: PeerID) -> UInt32 {
    let hash = withUnsafeBytes(of: (node.rawValue.bigEndian, number.bigEndian)) { SHA256.words($0) }
    return UInt32(truncatingIfNeeded: hash.first >> 32)
  }

  public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}
