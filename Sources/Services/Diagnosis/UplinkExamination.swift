/// The rules of `earshot doctor` for private messages over Nostr relays: the proxy, the relays, and what they need.
struct UplinkExamination {
  private static let settings = "/etc/earshot/uplink.conf"
  private static let look = "earshot mesh uplink"
  /// The developer's switch by which relays are reached without a proxy. `Reason` names it.
  private static let clearnet = "BITCHAT_DEV_ALLOW_CLEARNET"

  private let uplink: MachineFacts.Uplink?

  init(_ uplink: MachineFacts.Uplink?) { self.uplink = uplink }

  /// The findings; none if the service does not run, which its unit shows.
  func findings() -> [Finding] {
    guard let uplink else { return [] }
    return state(uplink) + proxy(uplink) + relays(uplink)
  }

  private func state(_ uplink: MachineFacts.Uplink) -> [Finding] {
    let problem = uplink.reason.isEmpty ? nil : Finding.warning("uplink", uplink.reason, Self.look)
    switch uplink.state {
    case "ready": return [problem ?? .ok("uplink", "Private messages can go over Nostr relays.")]
    case "idle":
      return [problem ?? .ok("uplink", "No mutual favourite has a Nostr key, so no relay is connected.")]
    case "starting": return [.warning("uplink", "earshot-nostrd reads its keys.", "try again in some seconds")]
    case "noMesh": return [.error("uplink", uplink.reason, "sudo systemctl start earshotd")]
    // The findings about the proxy and the relays contain the reason.
    case "waitingForProxy", "connecting": return []
    default:
      return [
        .error("uplink", "earshot-nostrd has failed. \(uplink.reason)", "journalctl -u earshot-nostrd -n 50")
      ]
    }
  }

  private func proxy(_ uplink: MachineFacts.Uplink) -> [Finding] {
    switch uplink.state {
    case "waitingForProxy":
      return [
        .error("proxy", uplink.reason, "sudo systemctl start tor, or correct Proxy= in \(Self.settings)")
      ]
    case "ready", "idle", "connecting":
      return uplink.reason.contains(Self.clearnet) ? [] : [.ok("proxy", "The SOCKS proxy accepts connections.")]
    default: return []
    }
  }

  private func relays(_ uplink: MachineFacts.Uplink) -> [Finding] {
    let refused = uplink.relays.filter { $0.state == "refused" }
    let used = uplink.relays.filter { $0.state != "refused" }
    let connected = used.filter(\.isConnected)
    var findings = refused.map { Finding.warning("relays", $0.reason, "correct Relays= in \(Self.settings)") }
    switch uplink.state {
    case "ready":
      findings.append(.ok("relays", "\(connected.count) of \(Self.number(used.count)) connected."))
      let lost = used.filter { !$0.isConnected && !$0.reason.isEmpty }
      findings += lost.map { Finding.warning("relays", "\($0.address) is not connected. \($0.reason)", Self.look) }
    case "connecting":
      let reasons = Set(used.map(\.reason).filter { !$0.isEmpty }).sorted()
      let sentences = ["No relay is connected."] + reasons + (uplink.reason.isEmpty ? [] : [uplink.reason])
      findings.append(
        .warning(
          "relays", sentences.joined(separator: " "),
          "if the proxy is tor, journalctl -u tor@default shows whether it has reached its network"))
    default: break
    }
    return findings
  }

  private static func number(_ count: Int) -> String { count == 1 ? "1 relay is" : "\(count) relays are" }
}
