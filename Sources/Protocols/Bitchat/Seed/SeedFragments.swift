/// Packets fragmented as in dialect S and in the apps of mid-2025: the header of `Fragment`, and a type that marks the
/// first and the last fragment. Facts: bitchat.md section 7.
public enum SeedFragments {
  /// Returns the fragments of a packet; nil if the link is too narrow for fragments, or more than 1,024 would be
  /// needed.
  public static func packets(
    of packet: PacketView, numbers: SeedNumbers, id: FragmentID, frameLimit: Int
  ) -> [Packet]? {
    FragmentPlan(packet, id: id, frameLimit: frameLimit).flatMap { packets(of: $0, numbers: numbers) }
  }

  /// Maximum fragments of a packet; receivers reject a larger total.
  static let limit = 1024

  static func packets(of plan: FragmentPlan, numbers: SeedNumbers) -> [Packet]? {
    let total = plan.fragments.count
    guard total <= limit else { return nil }
    return plan.fragments.enumerated().map { index, fragment in
      var fragment = fragment
      fragment.type = numbers.fragmentType(index: index, total: total)
      return fragment
    }
  }
}
