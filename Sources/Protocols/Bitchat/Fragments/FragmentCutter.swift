import Bytes

/// Fragments a packet for a link, one fragment per call. `FragmentPlan` makes them all at once.
struct FragmentCutter: Sendable {
  let packet: PacketView
  let id: FragmentID
  let sliceSize: Int
  let recipient: PeerID?
  /// Number of fragments.
  let count: Int

  /// Nil if the link is too narrow for fragments, or more than 10,000 would be needed.
  init?(_ packet: PacketView, id: FragmentID, frameLimit: Int, recipient: PeerID? = nil) {
    let recipient = packet.namedRecipient ?? recipient
    let size = FragmentPlan.sliceSize(frameLimit: frameLimit, hasRecipient: recipient != nil, hops: packet.route.count)
    guard let size else { return nil }
    self.init(packet, id: id, sliceSize: size, recipient: recipient)
  }

  init?(_ packet: PacketView, id: FragmentID, sliceSize: Int, recipient: PeerID?) {
    count = (packet.bytes.count + sliceSize - 1) / sliceSize
    guard count <= Limits.fragments else { return nil }
    (self.packet, self.id, self.sliceSize, self.recipient) = (packet, id, sliceSize, recipient)
  }

  /// Returns the fragment with this index; nil if there is none.
  ///
  /// - Parameter timestamp: timestamp of the fragment; nil for that of the packet.
  func fragment(_ index: Int, timestamp: UInt64? = nil) -> Packet? {
    guard (0..<count).contains(index) else { return nil }
    let slice = packet.bytes[(index * sliceSize)...].prefix(sliceSize)
    let fragment = try? Fragment(
      id: id, index: UInt16(index), total: UInt16(count), type: packet.type, slice: Array(slice))
    let route = packet.route
    return fragment.map { fragment in
      Packet(
        version: route.isEmpty ? .v1 : .v2, type: .fragment, timeToLive: packet.timeToLive,
        timestamp: timestamp ?? packet.timestamp, sender: packet.sender, recipient: recipient, route: route,
        payload: fragment.bytes, isSyncAnswer: packet.flags.contains(.syncAnswer))
    }
  }
}
