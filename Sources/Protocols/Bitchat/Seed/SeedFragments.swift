/// A packet cut as dialect S and the apps of mid-2025 cut them: the header of `Fragment`, and a type that says which of
/// the fragments is the first and which the last. Facts: bitchat.md section 7.
public enum SeedFragments {
  /// The fragments of a packet; nil if the link is too narrow for fragments, or there would be more than 1,024.
  public static func packets(
    of packet: PacketView, numbers: SeedNumbers, id: FragmentID, frameLimit: Int
  ) -> [Packet]? {
    FragmentPlan(packet, id: id, frameLimit: frameLimit).flatMap { packets(of: $0, numbers: numbers) }
  }

  /// The most fragments of a packet: a larger total would not be taken for one.
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
