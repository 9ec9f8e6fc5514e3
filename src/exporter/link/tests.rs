//! Both sides of a lane, and sides that do not keep to what was agreed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::words::{Kind, PIECE, write_frame};
use super::{Answers, Asker, Assignment, Lane, Life, LinkError, Next, Question, Recorded, Report, serve};
use crate::exporter::history_socket::HistoryError;
use crate::exporter::source::{Form, NotReady};
use crate::exporter::web::Figures;
use crate::exporter::web::files::Bundle;

const PATIENCE: Duration = Duration::from_secs(10);

/// Metrics are as many bytes as there were connections, or late if there were none.
struct MadeUp;

impl Answers for MadeUp {
    fn metrics(&self, _: Form, web: Figures) -> Result<Vec<u8>, NotReady> {
        if web.connections == 0 {
            std::thread::sleep(Duration::from_millis(300));
            return Ok(b"late".to_vec());
        }
        Ok((0..web.connections).map(|at| at as u8).collect())
    }

    fn status(&self) -> Value {
        json!({ "status": "ok" })
    }

    fn history(&self, _: &mut dyn Write) -> Result<(), HistoryError> {
        Err(NotReady("not yet".into()).into())
    }

    fn configuration(&self, _: Option<u64>) -> Option<Bundle> {
        None
    }

    fn acknowledge(&self, server: &str, user: u32) -> Option<u64> {
        (server == "3306").then_some(u64::from(user))
    }

    fn life(&self, report: Report) -> Life {
        Life {
            ready: Err(report.confined),
            healthy: Ok(()),
            reload: report.reloaded + 1,
            ending: false,
            verdicts: None,
        }
    }

    fn assignment(&self) -> Result<Assignment, NotReady> {
        Ok(Assignment { folder: b"/r\xff".to_vec(), limit: 7, user: (1, 2) })
    }

    fn intervals(&self, recorded: Recorded) -> Result<Next, NotReady> {
        Ok(Next { number: 1, intervals: recorded.confined.into_bytes(), ends: recorded.error.is_some() })
    }
}

fn lane_of(asker: Asker) -> Lane {
    let (asking, answering) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let answers: Arc<dyn Answers> = Arc::new(MadeUp);
        serve(&answering, asker, &answers)
    });
    Lane::new(asking)
}

fn lane() -> Lane {
    lane_of(Asker::Web)
}

#[test]
fn the_recorder_is_answered_and_neither_process_can_ask_the_others_questions() {
    let recorder = lane_of(Asker::Recorder);
    assert_eq!(recorder.assignment().unwrap().folder, b"/r\xff");
    let recorded = Recorded { confined: "well".into(), error: Some("full".into()), ..Recorded::default() };
    assert_eq!(
        recorder.intervals(recorded).unwrap(),
        Next { number: 1, intervals: b"well".to_vec(), ends: true }
    );
    assert!(matches!(recorder.ask(&Question::History, PATIENCE), Err(LinkError::Ended)));
    let web = lane();
    assert!(matches!(web.assignment(), Err(LinkError::Ended)));
    assert!(matches!(lane().intervals(Recorded::default()), Err(LinkError::Ended)));
}

fn metrics(bytes: u64) -> Question {
    Question::Metrics(Form::Text, Figures { connections: bytes, ..Figures::default() })
}

#[test]
fn answers_of_any_size_arrive_as_they_are() {
    let lane = lane();
    for size in [1, PIECE as u64, PIECE as u64 + 1, 1_000_000] {
        let answer = lane.ask(&metrics(size), PATIENCE).unwrap();
        assert!(answer.iter().enumerate().all(|(at, &byte)| byte == at as u8) && answer.len() as u64 == size);
    }
    assert_eq!(lane.ask(&Question::Status, PATIENCE).unwrap(), b"{\n  \"status\": \"ok\"\n}\n");
    let report = Report { confined: "well".into(), reloaded: 4 };
    let life = lane.life(&Question::Life(report)).unwrap();
    assert_eq!((life.ready, life.reload), (Err("well".into()), 5));
    let acknowledge = |server: &str| lane.acknowledge(&Question::Acknowledge(server.into(), 7)).unwrap();
    assert_eq!((acknowledge("3306"), acknowledge("3307")), (Some(7), None));
    assert!(lane.configuration(&Question::Configuration(Some(1))).unwrap().is_none());
}

#[test]
fn what_cannot_be_answered_is_refused_with_its_reason() {
    let lane = lane();
    let refused = lane.ask(&Question::History, PATIENCE);
    assert!(matches!(&refused, Err(LinkError::Refused(why)) if why == "not yet"), "{refused:?}");
    assert!(lane.ask(&metrics(3), PATIENCE).is_ok() && !lane.is_broken());
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken_for_the_next_one() {
    let lane = lane();
    let late = lane.ask(&metrics(0), Duration::from_millis(50));
    assert!(matches!(late, Err(LinkError::Io(_))), "{late:?}");
    assert!(!lane.is_broken());
    assert_eq!(lane.ask(&metrics(3), PATIENCE).unwrap(), [0, 1, 2]);
}

#[test]
fn a_client_that_goes_away_while_it_is_answered_leaves_the_lane_in_order() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lane = lane();
    assert!(matches!(lane.ask_into(&metrics(200_000), PATIENCE, &mut Gone), Err(LinkError::Io(_))));
    assert_eq!(lane.ask(&metrics(2), PATIENCE).unwrap(), [0, 1]);
}

#[test]
fn an_end_is_noticed_and_so_is_one_in_the_middle() {
    let (asking, answering) = UnixStream::pair().unwrap();
    let lane = Lane::new(asking);
    drop(answering);
    assert!(matches!(lane.ask(&Question::Status, PATIENCE), Err(LinkError::Ended)));
    assert!(lane.is_broken());

    let (asking, mut answering) = UnixStream::pair().unwrap();
    let lane = Lane::new(asking);
    answering.write_all(&[1, 0, 0, 0, 0, 9, 0]).unwrap();
    let cut = lane.ask(&Question::Status, Duration::from_millis(50));
    assert!(matches!(cut, Err(LinkError::Io(_))), "{cut:?}");
    assert!(lane.is_broken());
    assert!(matches!(lane.ask(&Question::Status, PATIENCE), Err(LinkError::Io(_))));
}

#[test]
fn an_answer_without_end_is_given_up() {
    let (asking, mut answering) = UnixStream::pair().unwrap();
    let lane = Lane::new(asking);
    std::thread::spawn(move || {
        let piece = vec![0; PIECE];
        while write_frame(&mut answering, 1, Kind::Piece, &piece).is_ok() {}
    });
    let mut length = 0u64;
    struct Count<'a>(&'a mut u64);
    impl Write for Count<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            *self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(lane.ask_into(&Question::Status, PATIENCE, &mut Count(&mut length)).is_err());
    assert_eq!(length, 64 << 20);
}

#[test]
fn what_is_no_question_ends_the_lane_and_nothing_else() {
    for nonsense in [&[0xff; 64][..], b"GET / HTTP/1.1\r\n\r\n", &[1, 0, 0, 0, 1, 0, 0, 0, 99]] {
        let (mut asking, answering) = UnixStream::pair().unwrap();
        asking.write_all(nonsense).unwrap();
        let answers: Arc<dyn Answers> = Arc::new(MadeUp);
        assert!(serve(&answering, Asker::Web, &answers).is_err(), "{nonsense:?}");
        drop(answering);
        assert_eq!(asking.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    }
}
