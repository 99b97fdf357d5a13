extension VerifierService {
  /// State of connected peers, which is dropped with their links.
  struct Held: Hashable {
    var links = 0
    var waitingLinks = 0
    var turnedDownLinks = 0
    var visits = 0
    var deadlines = 0
  }

  var held: Held {
    Held(
      links: addresses.count, waitingLinks: engine.waitingLinks, turnedDownLinks: engine.turnedDownLinks,
      visits: engine.visitors.count, deadlines: engine.linkDeadline == nil ? 0 : 1)
  }
}
