// Descriptions contain neither content, nor peers, nor keys.

extension MeshEngine: CustomStringConvertible, CustomReflectable {
  public var description: String { "a mesh node, \(state.rawValue), with \(links.count) links" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension MeshEngine.Action: CustomStringConvertible, CustomReflectable {
  public var description: String {
    switch self {
    case .send(let bytes, let link, let kind): "send \(bytes.count) bytes on link \(link.number) as \(kind)"
    case .cut(let link, let reason): "cut link \(link.number): \(reason.rawValue)"
    case .bound(let link, _): "bound link \(link.number)"
    case .peer: "peer"
    case .gone: "gone"
    case .heard: "heard"
    case .told: "told"
    case .toldAgain: "toldAgain"
    case .favourited: "favourited"
    case .file: "file"
    case .arriving(let file): "\(file)"
    case .arrivalEnded: "arrivalEnded"
    case .fileState(let number, let state): "file \(number) is \(state)"
    case .fileProgress(let number, let percent): "file \(number) at \(percent) %"
    case .withdraw: "withdraw"
    case .pong(let number, let milliseconds, let hops): "ping \(number): \(milliseconds) ms, \(hops) hops"
    case .pingLost(let number): "ping \(number) is lost"
    case .progress(let number, let state): "message \(number) is \(state.rawValue)"
    case .dated(let number, let time): "message \(number) was made at \(time)"
    case .keep: "keep"
    case .proof(_, let outcome): "proof \(outcome.rawValue)"
    case .session: "session"
    case .trouble: "trouble"
    case .noticeSettled: "noticeSettled"
    case .receiptSettled: "receiptSettled"
    case .state(let state): "state \(state.rawValue)"
    }
  }

  public var customMirror: Mirror { Mirror(self, children: []) }
}
