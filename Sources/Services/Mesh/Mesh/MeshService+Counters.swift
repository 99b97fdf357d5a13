import Bitchat
import Common

extension MeshService {
  /// Counters since the start.
  var tallies: [Tally] {
    let lost = dropped.reduce(0) { $0 + $1.value }
    return (engine?.counters.tallies ?? []) + (engine?.noiseTallies ?? []) + use.tallies(at: scheduler.now) + [
      Tally("SentFrames", sent), Tally("DroppedFrames", lost), Tally("UnreachableFrames", unreachable),
      Tally("LinesLeftOut", told.total), Tally("TooManyFiles", intake.refused), Tally("FilesNotKept", intake.lost),
    ]
  }
}
