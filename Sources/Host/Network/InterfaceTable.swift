/// A network interface of this machine.
public struct NetworkInterface: Hashable, Sendable {
  public let index: UInt32
  public let name: String
  public let isLoopback: Bool
  /// Whether the interface is up, has a carrier, and supports multicast.
  public let isUsable: Bool
  /// Addresses of the interface, in the order in which the kernel reported them. Addresses that are still being checked
  /// for duplicates are missing.
  public let addresses: [IPAddress]

  public init(index: UInt32, name: String, isLoopback: Bool, isUsable: Bool, addresses: [IPAddress]) {
    (self.index, self.name, self.isLoopback) = (index, name, isLoopback)
    (self.isUsable, self.addresses) = (isUsable, addresses)
  }
}

/// The interfaces as rtnetlink messages describe them (rtnetlink(7)).
///
/// | offset | `struct nlmsghdr` | `struct ifinfomsg` behind it | `struct ifaddrmsg` behind it |
/// |---|---|---|---|
/// | 0 | length, 4 bytes | family, padding, type | family, prefix length, flags, scope |
/// | 4 | type, 2 bytes; flags, 2 bytes | index, 4 bytes | index, 4 bytes |
/// | 8 | sequence number, 4 bytes | flags, 4 bytes | attributes |
/// | 12 | port, 4 bytes | change mask, 4 bytes | |
/// | 16 | | attributes | |
///
/// An attribute has its length (2 bytes), its type (2 bytes) and its value, padded to 4 bytes. Numbers have the byte
/// order of the machine.
struct InterfaceTable: Sendable {
  /// Result of applying the messages of one read.
  struct Outcome: Equatable {
    /// Whether the end of a dump was among the messages.
    var dumpEnded = false
    /// Whether the kernel refused a dump, or its data changed during one.
    var mustRestart = false
  }

  private struct Link: Hashable, Sendable {
    var name = ""
    var flags: UInt32 = 0
    var addresses: [IPAddress] = []
  }

  /// Maximum number of stored interfaces, and of stored addresses of one interface.
  static let links = 256
  static let addressesOfOne = 32

  private var links: [UInt32: Link] = [:]

  /// The interfaces that have a name, in the order of their indices.
  var interfaces: [NetworkInterface] {
    links.sorted { $0.key < $1.key }.filter { !$0.value.name.isEmpty }.map { index, link in
      NetworkInterface(
        index: index, name: link.name, isLoopback: link.flags & Flag.loopback != 0,
        isUsable: link.flags & Flag.usable == Flag.usable, addresses: link.addresses)
    }
  }

  /// Applies the messages from one read of the netlink socket.
  mutating func apply(_ bytes: ArraySlice<UInt8>) -> Outcome {
    var outcome = Outcome()
    var rest = bytes
    while let length = Self.number(rest, 0, UInt32.self), let type = Self.number(rest, 4, UInt16.self),
      let flags = Self.number(rest, 6, UInt16.self), length >= Self.headerSize, length <= rest.count
    {
      let body = rest.prefix(Int(length)).dropFirst(Self.headerSize)
      if flags & Self.dumpInterrupted != 0 { outcome.mustRestart = true }
      switch type {
      case MessageType.done: outcome.dumpEnded = true
      case MessageType.error:
        if let code = Self.number(body, 0, Int32.self), code != 0 { outcome.mustRestart = true }
      case MessageType.newLink, MessageType.deleteLink: applyLink(body, isNew: type == MessageType.newLink)
      case MessageType.newAddress, MessageType.deleteAddress:
        applyAddress(body, isNew: type == MessageType.newAddress)
      default: break
      }
      rest = rest.dropFirst(Self.padded(Int(length)))
    }
    return outcome
  }

  mutating func removeAll() { links = [:] }

  private mutating func applyLink(_ body: ArraySlice<UInt8>, isNew: Bool) {
    guard let family = body.first, let index = Self.number(body, 4, UInt32.self),
      let flags = Self.number(body, 8, UInt32.self)
    else { return }
    // Messages of a bridge's own family do not describe the interface itself.
    guard family == 0 else { return }
    guard isNew else {
      links[index] = nil
      return
    }
    guard links[index] != nil || links.count < Self.links else { return }
    var link = links[index] ?? Link()
    link.flags = flags
    if let name = Self.attributes(body.dropFirst(16))[Attribute.linkName] {
      link.name = String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
    }
    links[index] = link
  }

  private mutating func applyAddress(_ body: ArraySlice<UInt8>, isNew: Bool) {
    guard body.count >= 8, let index = Self.number(body, 4, UInt32.self) else { return }
    let attributes = Self.attributes(body.dropFirst(8))
    // On a point-to-point interface IFA_ADDRESS is the peer's address.
    guard let value = attributes[Attribute.localAddress] ?? attributes[Attribute.address],
      let address = IPAddress(bytes: value)
    else { return }
    let flags =
      attributes[Attribute.addressFlags].flatMap { Self.number($0, 0, UInt32.self) }
      ?? UInt32(body[body.startIndex + 2])
    let isUsable = isNew && flags & (Flag.tentative | Flag.duplicate) == 0
    guard links[index] != nil || links.count < Self.links else { return }
    var link = links[index] ?? Link()
    if !isUsable {
      link.addresses.removeAll { $0 == address }
    } else if !link.addresses.contains(address), link.addresses.count < Self.addressesOfOne {
      link.addresses.append(address)
    }
    links[index] = link
  }

  /// The attributes by type; the first one of a type counts.
  private static func attributes(_ bytes: ArraySlice<UInt8>) -> [UInt16: ArraySlice<UInt8>] {
    var found: [UInt16: ArraySlice<UInt8>] = [:]
    var rest = bytes
    while let length = number(rest, 0, UInt16.self), let type = number(rest, 2, UInt16.self), length >= 4,
      length <= rest.count
    {
      let kind = type & 0x3FFF
      if found[kind] == nil { found[kind] = rest.prefix(Int(length)).dropFirst(4) }
      rest = rest.dropFirst(padded(Int(length)))
    }
    return found
  }

  private static func padded(_ length: Int) -> Int { (length + 3) & ~3 }

  /// A number in the byte order of the machine; nil if it exceeds the bytes.
  private static func number<Value: FixedWidthInteger>(
    _ bytes: ArraySlice<UInt8>, _ offset: Int, _: Value.Type
  ) -> Value? {
    guard offset + MemoryLayout<Value>.size <= bytes.count else { return nil }
    return Value(native: bytes.dropFirst(offset))
  }

  private static let headerSize = 16
  /// Flag `NLM_F_DUMP_INTR` of a message: the dump is inconsistent.
  private static let dumpInterrupted: UInt16 = 0x10

  /// Message types of <linux/rtnetlink.h> and <linux/netlink.h>.
  enum MessageType {
    static let error: UInt16 = 2
    static let done: UInt16 = 3
    static let newLink: UInt16 = 16
    static let deleteLink: UInt16 = 17
    static let getLink: UInt16 = 18
    static let newAddress: UInt16 = 20
    static let deleteAddress: UInt16 = 21
    static let getAddress: UInt16 = 22
  }

  /// Attribute types: `IFLA_IFNAME`, `IFA_ADDRESS`, `IFA_LOCAL`, `IFA_FLAGS`.
  enum Attribute {
    static let linkName: UInt16 = 3
    static let address: UInt16 = 1
    static let localAddress: UInt16 = 2
    static let addressFlags: UInt16 = 8
  }

  /// Flags of links (`IFF_`) and addresses (`IFA_F_`).
  enum Flag {
    /// The flags that a usable interface has: `IFF_UP`, `IFF_RUNNING` and `IFF_MULTICAST`.
    static let usable: UInt32 = 0x1 | 0x40 | 0x1000
    static let loopback: UInt32 = 0x8
    static let tentative: UInt32 = 0x40
    static let duplicate: UInt32 = 0x08
  }
}
